/// \file
/// Files that are made from a dataset and kept beside it: its index, its packs.
#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/shards/shard_source.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// A directory for such files. Links on the way to `root` are followed; below it none is, for
/// others may write to a dataset's directory.
struct DerivedPlace {
  std::string root;
  std::string name;  ///< Of the directory in it.
};

/// Where such files may lie, the best place first: `<dataset>/.stoker`, if its store is local,
/// then, if there is a cache directory, a directory in it named by the hash of the dataset's. They
/// are mapped, so they are local files whatever the store.
std::vector<DerivedPlace> derived_places(const ShardSource& source,
                                         const std::string& cache_directory);

struct DerivedFileOptions {
  std::vector<DerivedPlace> places;
  std::string name;
  std::string what;      ///< "the index", "the packs": for messages.
  bool rebuild = false;  ///< Even if there is one that fits.
  /// Whether it is built in memory where no place takes it. Without any place it always is.
  bool in_memory = false;
  std::stop_token stop = {};
  FileOps* ops = nullptr;  ///< What publishes it; null: posix_file_ops(). For crash tests.
};

struct DerivedFile {
  std::string path = {};
  bool is_new = false;  ///< Built by this call.
  /// Built in memory: its bytes, and why there is no file.
  std::vector<std::byte> bytes = {};
  Status refused = {};
};

/// Finds the file, or builds it.
///
/// `take` opens the file of that path and keeps it, or says why it is of no use: not there,
/// damaged, out of date. `build` makes its bytes.
///
/// 1. Each place is asked for a file that can be taken, the one with the newest file first.
/// 2. Else, in the first place that can be written to: the builder's flock is waited for, what
///    another process has built meanwhile is taken, what killed builders left is removed, the
///    bytes are built and published by rename, and taken.
///
/// A place where something else has one of our names, such as a symbolic link, cannot be written
/// to. If no place takes it, it is built in memory and not taken, if `in_memory`; else `denied`,
/// `no_space` or `invalid_argument`, with the way out. `cancelled` if `stop` fires.
Result<DerivedFile> open_derived_file(const DerivedFileOptions& options,
                                      const std::function<Status(const PathAt& path)>& take,
                                      const std::function<Result<std::vector<std::byte>>()>& build);

}  // namespace stoker
