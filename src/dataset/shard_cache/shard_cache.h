/// \file
/// ShardCache: ranges of remote objects on a local disk, shared by all processes of a machine.
#pragma once

#include <atomic>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>

#include "base/clock.h"
#include "base/counters.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "dataset/shard_cache/cache_directory.h"
#include "dataset/shard_cache/chunk_file.h"
#include "dataset/shard_cache/fetch_units.h"
#include "dataset/shard_cache/order_forecast.h"
#include "io/files/file_ops.h"
#include "stoker/cache.h"
#include "stoker/status.h"
#include "stoker/store.h"

namespace stoker {

/// Keeps ranges of objects on a local disk: chunk files that are checked on every read, bounded in
/// bytes, and shared between processes without a daemon (cache_directory.h).
///
/// The source is always enough. A damaged chunk is fetched again; when the disk is full, fails, or
/// may not be written to, reads go to the source, and trouble() says why.
///
/// Thread safety: every method from any thread, also in a forked child.
class ShardCache {
 public:
  struct Options {
    std::string directory;
    std::uint64_t size_bytes = 0;  ///< Of all files; at least kSizeMin.
    /// How long a range that another process is fetching is waited for; then it is read from the
    /// source, uncached.
    nanoseconds busy_timeout{30'000'000'000};
    FileOps* ops = nullptr;  ///< Null: posix_file_ops().
  };
  static constexpr std::uint64_t kSizeMin = 4 * ChunkId::kSizeMax;

  /// Opens or creates the cache. `invalid_argument` for a size below kSizeMin and for a directory
  /// that has other files. If the directory cannot be used for another reason, the cache works
  /// without it, see trouble().
  static Result<std::shared_ptr<ShardCache>> open(Options options);
  ShardCache(const ShardCache&) = delete;
  ShardCache& operator=(const ShardCache&) = delete;
  ~ShardCache();

  /// Returns a store whose objects are those of `source`, read through this cache. It has no
  /// uploads and removals. Objects that have no identity or no version (ObjectStore::identity_of(),
  /// ObjectInfo) are not cached. `units` cuts the objects; null: into chunks.
  static std::shared_ptr<ObjectStore> over(std::shared_ptr<ShardCache> cache,
                                           std::shared_ptr<ObjectStore> source,
                                           std::shared_ptr<const FetchUnitMaker> units = nullptr);

  /// Tells this cache, and the other processes that share it, which samples a run will read: chunks
  /// that are needed last are then evicted first. Report to the result how far the run has come.
  std::shared_ptr<OrderProgress> announce(AnnouncedOrder order);

  CacheStats stats() const;
  /// Why the cache did not work at some time, the first reason; OK if it always did.
  Status trouble() const;
  const Options& options() const noexcept { return options_; }

  // What a source of over() does.

  /// Reads a part of a chunk from the local disk; false if it is not there or not whole.
  bool read(const ChunkId& id, std::uint64_t offset_bytes, std::span<std::byte> out);
  /// The same for a reader of its own: opens a chunk, or returns null; then read_ended() is told
  /// what became of the read of some bytes. After a failure the chunk is not there any more.
  std::shared_ptr<const ChunkFile> open_chunk(const ChunkId& id);
  void read_ended(const ChunkFile& chunk, const Status& status, std::uint64_t size_bytes);
  /// Begins to fetch a chunk. Trouble is no_room.
  CacheDirectory::Begin begin(const ChunkId& id, ChunkFetch& out);
  void commit(ChunkFetch fetch, std::string_view identity, std::span<const std::byte> body);
  void abandon(ChunkFetch fetch);
  void count_pass(std::uint64_t bytes) noexcept;
  /// Returns how often this process has read from a source.
  std::uint64_t source_reads() const noexcept;
  void count_wait() noexcept;

 private:
  struct State;

  explicit ShardCache(Options options) : options_(std::move(options)) {}
  State& state();
  const State* state_if_here() const;
  std::shared_ptr<const ChunkFile> open_chunk(State& state, const ChunkId& id);
  void failed(State& state, const Status& status, bool is_write);

  const Options options_;
  /// Of this process: a forked child makes its own, and leaks that of its parent, whose mutexes may
  /// be locked. Acquire and release: who sees the pointer also sees the state.
  std::atomic<State*> state_{nullptr};
};

}  // namespace stoker
