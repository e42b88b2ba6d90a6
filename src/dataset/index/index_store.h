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
  bool checksums = false;     ///< A CRC32C for each sample; reads every byte once.
  bool rebuild = false;       ///< Even if there is one that fits.
  bool check_all = false;     ///< Check every block of the one that is there, not its frame alone.
  unsigned thread_count = 0;  ///< 0: two for each core, at most one for each shard.
  /// Where indexes go when the dataset's own directory cannot be written to; empty: nowhere.
  std::string cache_directory = {};
  bool in_memory = false;  ///< Keep it in memory where neither place takes it.
  std::function<void(const IndexProgress&)> progress = {};  ///< Called from any thread, in turn.
  std::stop_token stop = {};
  FileOps* ops = nullptr;  ///< What publishes it; null: posix_file_ops(). For crash tests.
};

/// An open index, and how it came about.
struct IndexFile {
  Index index;
  std::string path;     ///< Empty if it is kept in memory.
  bool is_new = false;  ///< Built by this call.
  Status refused = {};  ///< Why it is kept in memory.
  Status damage = {};   ///< Of the file that this one replaces.
};

/// The index of a dataset: the one that is there if its shards are as they were indexed (names,
/// sizes, times), else a new one, built in parallel and published by rename. One with checksums is
/// kept whatever the times say: a copy has new ones, and each sample is held against its checksum
/// when it is read, so that a shard which was changed is found out and not indexed anew. One that
/// is damaged is replaced, and has checksums again if it says that it had. It lies in
/// `<dataset>/.stoker/`, or in the cache directory. One process builds, others wait for it.
///
/// `denied` or `no_space`, with the way out, if neither place takes it, unless `in_memory` is set;
/// `unavailable` if a shard changes while it is scanned.
Result<IndexFile> open_index_file(const ShardSource& source, const IndexOptions& options = {});
Result<Index> open_index(const ShardSource& source, const IndexOptions& options = {});

/// Scans all shards and lays out a new index, without publishing it.
Result<std::vector<std::byte>> build_index(const ShardSource& source, const IndexOptions& options);

/// "index-<hash of the shard names>": several sets of shards may share a directory. Sidecars that
/// decide where samples lie count with their sizes and times as well.
std::string index_name(const ShardSource& source);

/// Whether the index describes these shards as they are now: names and sizes, and times where it
/// has no checksums.
bool fits(const Index& index, const ShardSource& source);

}  // namespace stoker
