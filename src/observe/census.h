#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "observe/machine.h"

namespace stoker {

/// The limits of a census. They bound its cost, whatever the size of the tree.
struct CensusOptions {
  std::size_t depth_max = 16;
  std::size_t directories_per_level_max = 1024;
  std::size_t entries_max = 100'000;         ///< Listed per directory.
  std::size_t sizes_per_directory_max = 64;  ///< Files whose size is read, per directory.
};

/// Statistics of a tree, estimated from a sample. The sample is deterministic: the largest
/// directories and an even choice of the others.
struct Census {
  std::uint64_t file_count = 0;         ///< Estimated, unless `is_exact`.
  std::uint64_t size_median_bytes = 0;  ///< Of the sampled files.
  std::uint64_t size_average_bytes = 0;
  double shard_bytes_share = 0;   ///< Share of the sampled bytes in files named like shards.
  bool is_exact = true;           ///< Every directory was listed to its end.
  std::string crowded_directory;  ///< The first that reached `entries_max`; empty if none did.

  /// Whether most of the bytes are in shards already.
  bool is_shards() const { return shard_bytes_share > 0.5; }
};

/// Walks down from `directory` level by level, never through a symbolic link or into another
/// filesystem. Directories that cannot be read, or are removed meanwhile, count as empty.
Census take_census(Machine& machine, const std::string& directory, const CensusOptions& options);

}  // namespace stoker
