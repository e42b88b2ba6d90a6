/// \file
/// CacheDirectory: the files of a cache, which several processes share without a daemon.
///
///   stoker-cache        says that this is one, and of which version
///   chunks/<2 digits>/  chunk files, under the names of chunk_id.h
///   new/                chunks that are being fetched, each locked (flock) by its fetcher
///   orders/             what live processes will read (order_file.h)
///   ledger              the bytes of all files below chunks/ and new/ (cache_ledger.h)
///
/// A fetch goes:
///   1. create or open new/<name> and lock it, without waiting: another holder is fetching it
///   2. lock the ledger; evict until there is room; set the size of the file; unlock
///   3. fetch, and write the file
///   4. rename it to chunks/, and unlock
/// The size that step 2 sets is the reservation: whoever counts the files counts it, and if the
/// fetcher dies, its lock is free and the file is removed or used by the next one. Nothing is
/// synced: checksums tell whether a file is whole.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/fork_closed_fd.h"
#include "base/mutex.h"
#include "dataset/shard_cache/cache_ledger.h"
#include "dataset/shard_cache/chunk_file.h"
#include "dataset/shard_cache/chunk_table.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// A chunk that this process fetches: the right to write its file. The destructor gives the right
/// back, also in a process that dies; the file is then removed by the next who needs its room.
class ChunkFetch {
 public:
  const ChunkId& id() const noexcept { return id_; }

 private:
  friend class CacheDirectory;
  ChunkId id_;
  std::unique_ptr<ForkClosedFd> fd_;
};

/// Thread safety: every method from any thread. A forked child must open its own.
class CacheDirectory {
 public:
  struct Options {
    std::string path;
    std::uint64_t limit_bytes = 0;            ///< Of all files.
    nanoseconds lock_timeout{2'000'000'000};  ///< For the ledger.
  };

  /// Opens or creates the directory, which gets the mode 0700. `invalid_argument` for one that has
  /// other files, `denied` for one of another user, `unsupported` for one of a later version.
  static Result<std::unique_ptr<CacheDirectory>> open(FileOps& ops, Options options,
                                                      const UseForecast& forecast);
  /// The same for one that exists; for commands that look at it.
  static Result<std::unique_ptr<CacheDirectory>> open_existing(FileOps& ops, Options options,
                                                               const UseForecast& forecast);

  /// Opens a chunk: `not_found` if there is none. A damaged one is removed and is `corrupt`.
  Result<ChunkFile> find(const ChunkId& id);
  /// Notes that a chunk was used, for the order of eviction of all processes.
  void touch(const ChunkFile& chunk);

  enum class Begin : std::uint8_t {
    fetch,    ///< `out` is the right to fetch it.
    present,  ///< Somebody has just fetched it: find() it.
    busy,     ///< Somebody is fetching it.
    no_room,  ///< Other chunks are needed sooner: do not cache it.
  };
  /// Steps 1 and 2 above.
  Result<Begin> begin(const ChunkId& id, ChunkFetch& out);
  /// Steps 3 and 4. After a failure nothing is left.
  Status commit(ChunkFetch fetch, std::string_view identity, std::span<const std::byte> body);
  void abandon(ChunkFetch fetch);

  /// Removes a chunk.
  Status remove(const ChunkId& id);
  /// Removes all chunks, and what dead fetchers have left.
  Status clear();

  struct Chunk {
    ChunkId id;
    std::uint64_t file_bytes = 0;
    std::int64_t modified_ns = 0;
  };
  /// Returns the chunks that there are, without opening them.
  Result<std::vector<Chunk>> list() const;

  /// The bytes of all files, as last seen by this process.
  std::uint64_t used_bytes() const;
  std::uint64_t limit_bytes() const noexcept { return options_.limit_bytes; }
  const std::string& path() const noexcept { return options_.path; }
  PathAt orders() const { return {root_, "orders"}; }
  /// Chunks that this process has evicted.
  std::uint64_t evicted() const;

 private:
  CacheDirectory(FileOps& ops, Options options, const UseForecast& forecast)
      : ops_(ops), options_(std::move(options)), table_(forecast), forecast_(forecast) {}

  Status enter(bool may_create);
  Status check_marker(bool may_create);
  Status make_ledger_valid();
  PathAt chunk_path(const ChunkId& id) const;
  PathAt new_path(const ChunkId& id) const;
  PathAt ledger_path() const { return {root_, "ledger"}; }
  Result<CacheLedger> lock_ledger();
  Result<std::uint64_t> count_files();
  std::uint64_t sweep_new();
  bool is_room_likely(const ChunkId& id);
  Result<bool> make_room(CacheLedger& ledger, const ChunkId& id, std::uint64_t wanted_bytes);
  Status evict(CacheLedger& ledger, const ChunkTable::Due& worst);
  Result<Begin> reserve(const ChunkId& id, int fd);
  void give_up(const ChunkFetch& fetch);

  FileOps& ops_;
  const Options options_;
  std::shared_ptr<const RootDirectory> root_;

  mutable Mutex mutex_;
  ChunkTable table_ STOKER_GUARDED_BY(mutex_);
  const UseForecast& forecast_;
  std::uint64_t used_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t evicted_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t refused_ STOKER_GUARDED_BY(mutex_) = 0;  // by is_room_likely()
};

}  // namespace stoker
