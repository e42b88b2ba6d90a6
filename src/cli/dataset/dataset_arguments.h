/// \file
/// Shared by the commands that read datasets: how one is named, opened and printed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "dataset/shard_dataset.h"

namespace stoker::cli {

struct DatasetArguments {
  std::vector<std::string> uris;
  std::string format;  ///< Empty: detected from the content.
  std::string dtype;   ///< Empty: what the files state.
  bool verbose = false;
  bool checksums = false;
  bool rebuild = false;
  bool needs_index_file = false;  ///< An index in memory is not enough.
  bool check_index = false;       ///< Check all of the index, and rebuild it if it is damaged.
  CachePolicy policy = CachePolicy::automatic;
  std::shared_ptr<ShardCache> cache = {};  ///< To read samples through.
};

/// --format, --dtype and --verbose.
void add_dataset_options(Command& command, DatasetArguments& arguments);
/// Adds the same options, and URI...
void add_dataset_arguments(Command& command, DatasetArguments& arguments);

/// Groups patterns into datasets: each directory is one dataset, and all files together are one, so
/// that a shell's expansion of *.tar is not a dataset per shard.
std::vector<std::vector<std::string>> group_datasets(const std::vector<std::string>& uris);

/// Returns where to store the index of a dataset that is not writable: below $XDG_CACHE_HOME, or
/// below ~/.cache. Empty if the environment has neither.
std::string index_cache_directory();

/// Opens one dataset. While its index is built, shows progress on stderr: a line that is redrawn on
/// a terminal, otherwise with --verbose one line per update.
Result<std::shared_ptr<const ShardDataset>> open_dataset(const std::vector<std::string>& patterns,
                                                         const DatasetArguments& arguments,
                                                         Context& context);

/// Returns the name of a dataset in results: the pattern, or the directory if there are several.
std::string dataset_name(const std::vector<std::string>& patterns, const ShardDataset& dataset);

/// Returns "index" (a CRC32C per sample), "format" (checksums in the shards) or "unchecked".
std::string_view checks_of(const ShardDataset& dataset) noexcept;
/// Returns the same in words.
std::string_view explain_checks(const ShardDataset& dataset) noexcept;

std::uint64_t shard_bytes_of(const ShardDataset& dataset) noexcept;

/// "12 samples in 3 shards (tar), 45.2 KiB".
std::string describe_dataset(const ShardDataset& dataset);

}  // namespace stoker::cli
