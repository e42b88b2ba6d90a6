#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>

#include "dataset/dataset.h"
#include "stoker/status.h"

namespace stoker {

/// The number of the first sample with this key (SampleRecord::key()). The index has no keys: where
/// the format has them, shards are scanned in order, headers only, until it is found; where it has
/// none, the number is in the key. `not_found` after the last shard.
Result<std::uint64_t> find_key(const Dataset& dataset, std::string_view key,
                               const std::stop_token& stop = {});

}  // namespace stoker
