#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataset/shard_cache/dataset_units.h"
#include "stoker/order.h"

namespace stoker {

/// What a run will read, for expected_bytes().
struct EpochQuestion {
  std::uint64_t dataset_bytes = 0;  ///< Of all datasets.
  std::uint64_t sample_count = 0;
  double record_unit_bytes = 0;  ///< DatasetUnits::mean_record_unit_bytes(), for the mean sample.
  std::uint64_t cache_bytes = 0;
  Shuffle shuffle = Shuffle::global;
  double share = 1;  ///< Of the samples of an epoch that this machine reads.
};

struct EpochAnswer {
  FetchUnit unit = FetchUnit::chunks;
  /// Bytes that this machine reads from the source in its first epoch, and in each later one.
  std::uint64_t first_bytes = 0;
  std::uint64_t later_bytes = 0;
  /// `first_bytes` over the bytes of the samples that it needs. Above kBlockOrderPays, block order
  /// would fetch much less.
  double excess = 1;
};

/// Where the loader suggests block order.
inline constexpr double kBlockOrderPays = 1.5;

/// Chooses what is fetched as one, and computes how much that is. Chunks if all data fits the
/// cache, or if the order reads blocks or in stored order; otherwise records, because a chunk of
/// which one sample is needed at a time would be evicted before the next one is.
EpochAnswer expected_bytes(const EpochQuestion& question);

/// "an epoch reads 1.2 TiB from the source, later ones 0.8 TiB each", and the advice, if any.
std::string describe(const EpochQuestion& question, const EpochAnswer& answer);

}  // namespace stoker
