/// \file
/// Files that are derived from a dataset and stored next to it: its index, its packs.
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

/// A directory for derived files. Links on the path to `root` are followed; below it none is,
/// because others may write to a dataset's directory.
struct DerivedPlace {
  std::string root;
  std::string name;  ///< Name of the directory in `root`.
};

/// Returns the places for derived files, the best first: `<dataset>/.stoker`, if its store is
/// local; then, if there is a cache directory, a directory in it that is named by the hash of the
/// dataset's path, and of the identity of a store that is not local. If that is empty, there is no
/// place. Derived files are mapped, so they are always local.
std::vector<DerivedPlace> derived_places(const ShardSource& source,
                                         const std::string& cache_directory);

struct DerivedFileOptions {
  std::vector<DerivedPlace> places;
  std::string name;
  std::string what;      ///< "the index", "the packs": for messages.
  bool rebuild = false;  ///< Build the file even if a matching one exists.
  /// Build the file in memory if no place is writable. If `places` is empty it always is.
  bool in_memory = false;
  std::stop_token stop = {};
  FileOps* ops = nullptr;  ///< Publishes the file; null: posix_file_ops(). For crash tests.
};

struct DerivedFile {
  std::string path = {};
  bool is_new = false;  ///< Built by this call.
  /// If it was built in memory: its bytes, and why there is no file.
  std::vector<std::byte> bytes = {};
  Status refused = {};
};

/// Opens the file, or builds it.
///
/// `take` opens the file at a path and keeps it, or returns why it cannot be used: missing,
/// damaged, out of date. `build` makes the bytes of the file.
///
/// 1. Tries to take the file of each place, the newest file first.
/// 2. Otherwise, in the first writable place: waits for the builder's flock, takes the file if
///    another process has built it meanwhile, removes what killed builders left, builds the bytes,
///    publishes them by rename, and takes the file.
///
/// A place where another object, such as a symbolic link, has one of the needed names counts as not
/// writable. If no place is writable: if `in_memory`, builds the file in memory and does not call
/// `take`; otherwise returns the error of the last place, `denied`, `no_space`, `invalid_argument`
/// or `not_found`, with advice. `cancelled` if `stop` fires.
Result<DerivedFile> open_derived_file(const DerivedFileOptions& options,
                                      const std::function<Status(const PathAt& path)>& take,
                                      const std::function<Result<std::vector<std::byte>>()>& build);

}  // namespace stoker
