#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>

#include "dataset/shard_dataset.h"
#include "stoker/status.h"

namespace stoker {

struct StageOptions {
  struct Progress {
    std::uint64_t done_bytes = 0;
    std::uint64_t size_bytes = 0;  ///< What will be staged.
  };
  std::function<void(const Progress&)> progress = {};
  std::stop_token stop = {};
};

struct StageReport {
  std::uint64_t dataset_bytes = 0;
  std::uint64_t staged_bytes = 0;   ///< Now in the cache, whether or not they were before.
  std::uint64_t fetched_bytes = 0;  ///< Of them, read from the source now.
};

/// Brings the shards of a dataset into its cache, in stored order, until all are there or the cache
/// is full. The first error ends it, with the name of the shard; `cancelled` if the stop token
/// fires. `invalid_argument` for a dataset without a cache, and the cache's trouble if it has any.
Result<StageReport> stage_shards(const ShardDataset& dataset, const StageOptions& options = {});

}  // namespace stoker
