/// \file
/// What the commands that read datasets share: how one is named, opened and printed.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "dataset/dataset.h"

namespace stoker::cli {

struct DatasetArguments {
  std::vector<std::string> uris;
  std::string format;  ///< Empty: by content.
  std::string dtype;   ///< Empty: what the files say.
  bool verbose = false;
  bool checksums = false;
  bool rebuild = false;
  bool needs_index_file = false;  ///< One in memory will not do.
  bool check_index = false;       ///< Check all of the index, and rebuild it if it is damaged.
  CachePolicy policy = CachePolicy::automatic;
};

/// --format, --dtype and --verbose.
void add_dataset_options(Command& command, DatasetArguments& arguments);
/// The same, and URI...
void add_dataset_arguments(Command& command, DatasetArguments& arguments);

/// Which patterns are one dataset: each directory is one by itself, and all files together are one,
/// so that what a shell makes of *.tar is not a dataset for each shard.
std::vector<std::vector<std::string>> group_datasets(const std::vector<std::string>& uris);

/// Where indexes go when a dataset cannot be written to: $XDG_CACHE_HOME, else ~/.cache. Empty if
/// the environment names neither.
std::string index_cache_directory();

/// Opens one dataset, with progress on stderr while its index is built: a line that is redrawn on a
/// terminal, a line for each shard with --verbose elsewhere.
Result<std::shared_ptr<const Dataset>> open_dataset(const std::vector<std::string>& patterns,
                                                    const DatasetArguments& arguments,
                                                    Context& context);

/// What a dataset is called in results: the pattern, or the directory of several.
std::string dataset_name(const std::vector<std::string>& patterns, const Dataset& dataset);

/// "index": a CRC32C for each sample; "format": the shards' own; "unchecked": neither.
std::string_view checks_of(const Dataset& dataset) noexcept;
/// The same in words.
std::string_view explain_checks(const Dataset& dataset) noexcept;

std::uint64_t shard_bytes_of(const Dataset& dataset) noexcept;

/// "12 samples in 3 shards (tar), 45.2 KiB".
std::string describe_dataset(const Dataset& dataset);

}  // namespace stoker::cli
