#pragma once

#include <cstdint>
#include <stop_token>
#include <string_view>

#include "dataset/shard_dataset.h"
#include "stoker/status.h"

namespace stoker {

/// Returns the number of the first sample with this key (SampleRecord::key()). The index has no
/// keys. If the format has keys (tar), the headers of all shards are scanned in order until the key
/// is found. Otherwise, if the first sample has a field "__key__", the samples are read one by one,
/// and then the key is tried as "<shard stem>/<number>". `not_found` if no sample has the key,
/// `cancelled` if `stop` fires.
Result<std::uint64_t> find_key(const ShardDataset& dataset, std::string_view key,
                               const std::stop_token& stop = {});

}  // namespace stoker
