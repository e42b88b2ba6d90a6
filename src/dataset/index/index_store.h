#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/index/index.h"
#include "dataset/shards/shard_source.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct IndexProgress {
  std::uint64_t shards_done = 0;
  std::uint64_t shard_count = 0;
  std::uint64_t samples_found = 0;
};

struct IndexOptions {
  bool checksums = false;     ///< Compute a CRC32C per sample; reads every byte once.
  bool rebuild = false;       ///< Build the index even if a matching one exists.
  bool check_all = false;     ///< Verify every block of an existing index, not only its frame.
  unsigned thread_count = 0;  ///< 0: two per core; at most one per shard.
  /// Directory for the index if the dataset's own directory is not writable; empty: none.
  std::string cache_directory = {};
  bool in_memory = false;  ///< Keep it in memory if neither directory is writable.
  std::function<void(const IndexProgress&)> progress =
      {};  ///< Called from any thread, one call at a time.
  std::stop_token stop = {};
  FileOps* ops = nullptr;  ///< Publishes the file; null: posix_file_ops(). For crash tests.
};

/// An open index, and where it comes from.
struct IndexFile {
  Index index;
  std::string path;     ///< Empty if the index is in memory only.
  bool is_new = false;  ///< Built by this call.
  Status refused = {};  ///< Why it is in memory only.
  Status damage = {};   ///< Damage of the file that this index replaces.
};

/// Opens the index of a dataset in `<dataset>/.stoker/` or the cache directory. If there is none
/// that matches the shards (names, sizes, modification times), builds a new one in parallel and
/// publishes it by rename; one process builds, others wait for it. For an index of local files with
/// checksums the times need not match: a copy has new times, and a changed shard is detected when a
/// sample is read, instead of being indexed again. A damaged index is replaced, with checksums if
/// its header says that it had them.
///
/// Fails as open_derived_file() does if neither directory is writable, unless `in_memory` is set;
/// `unavailable` if a shard changes while it is scanned.
Result<IndexFile> open_index_file(const ShardSource& source, const IndexOptions& options = {});
Result<Index> open_index(const ShardSource& source, const IndexOptions& options = {});

/// Scans all shards and returns the bytes of a new index, without publishing it.
Result<std::vector<std::byte>> build_index(const ShardSource& source, const IndexOptions& options);

/// "index-<hash of the shard names>": several sets of shards may share a directory. The hash
/// includes the names, sizes and modification times of sidecars.
std::string index_name(const ShardSource& source);

/// Whether the index matches the shards as they are now: format, names and sizes, and modification
/// times if it has no checksums. In other stores always the versions, which are those of contents.
bool fits(const Index& index, const ShardSource& source);

}  // namespace stoker
