#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "observe/machine.h"

namespace stoker {

/// How far a census goes. What it costs is bounded by these numbers, not by the size of the tree.
struct CensusOptions {
  std::size_t depth_max = 16;
  std::size_t directories_per_level_max = 1024;
  std::size_t entries_max = 100'000;         ///< Listed of one directory.
  std::size_t sizes_per_directory_max = 64;  ///< Files asked for their size in one directory.
};

/// What a tree looks like, judged from a sample. The sample is the same each time: the longest
/// directories and an even choice of the others, no random numbers.
struct Census {
  std::uint64_t file_count = 0;         ///< Estimated, unless `is_exact`.
  std::uint64_t size_median_bytes = 0;  ///< Of the sampled files.
  std::uint64_t size_average_bytes = 0;
  double shard_bytes_share = 0;   ///< Of the sampled bytes, those in files named like shards.
  bool is_exact = true;           ///< Every directory was listed to its end.
  std::string crowded_directory;  ///< One with more entries than were listed; empty if none.

  /// Whether most of what is there has been packed already.
  bool is_shards() const { return shard_bytes_share > 0.5; }
};

/// Walks down from `directory` level by level, never through a symbolic link or into another
/// filesystem. What cannot be read, or vanishes meanwhile, counts as empty.
Census take_census(Machine& machine, const std::string& directory, const CensusOptions& options);

}  // namespace stoker
