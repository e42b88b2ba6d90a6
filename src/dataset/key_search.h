#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>

#include "dataset/dataset.h"
#include "stoker/status.h"

namespace stoker {

/// The number of the first sample with this key (SampleRecord::key()). The index has no keys: in a
/// tar, shards are scanned in order, headers only, until it is found; where samples have a field
/// "__key__" they are read for it, one after the other. "<shard stem>/<number>" is found at once,
/// or after them. `not_found` after the last shard.
Result<std::uint64_t> find_key(const Dataset& dataset, std::string_view key,
                               const std::stop_token& stop = {});

}  // namespace stoker
