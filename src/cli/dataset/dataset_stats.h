#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>

#include "dataset/shard_dataset.h"

namespace stoker::cli {

/// Statistics of sizes.
struct SizeStats {
  std::uint64_t count = 0;
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = 0;
  std::uint64_t total_bytes = 0;

  void add(std::uint64_t size_bytes);
  std::uint64_t mean_bytes() const noexcept { return count == 0 ? 0 : total_bytes / count; }
};

/// Counts sizes by powers of two: bucket 0 counts empty ones, bucket k those in [2^(k-1), 2^k).
struct SizeHistogram {
  std::array<std::uint64_t, 65> counts{};

  void add(std::uint64_t size_bytes);
  static std::uint64_t lowest_in(std::size_t bucket) noexcept;
};

/// Lengths of the sequences of a token dataset.
struct TokenStats {
  std::string dtype;
  std::uint64_t count = 0;  ///< Tokens in all sequences.
  std::uint64_t min = 0;    ///< Tokens in the shortest sequence.
  std::uint64_t max = 0;
};

struct ClassStats {
  std::map<std::int64_t, std::uint64_t> counts;  ///< Samples by the number in their field "cls".
  std::map<std::int64_t, std::string> names;     ///< From classes.json, if it exists.

  std::string name_of(std::int64_t number) const;  ///< Empty if the class has no name.
};

struct DatasetStats {
  SizeStats records;        ///< Of every sample: its size in the shard, from the index.
  SizeHistogram histogram;  ///< Of the same sizes.
  std::uint64_t read_count = 0;
  std::map<std::string, SizeStats> fields;  ///< Of the samples that were read.
  ClassStats classes;                       ///< Of the samples that were read.
  std::optional<TokenStats> tokens;         ///< Of every sample, if samples are tokens.
};

/// Reads every index entry, and at most `read_max` samples, evenly spread. `cancelled` if `stop`
/// fires.
Result<DatasetStats> gather_stats(const ShardDataset& dataset, std::uint64_t read_max,
                                  const std::stop_token& stop);

}  // namespace stoker::cli
