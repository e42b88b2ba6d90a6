/// \file
/// Cache: what was read of remote shards, on a local disk.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

class ShardCache;  // of the library

namespace internal {
class CacheInside;
}  // namespace internal

/// What a cache has done in this process. Ranges that were requested are `hits`, `passes`, or parts
/// of a chunk that was fetched.
struct CacheStats {
  std::uint64_t hits = 0;           ///< Ranges delivered from the local disk.
  std::uint64_t hit_bytes = 0;      ///< Their bytes.
  std::uint64_t fetches = 0;        ///< Chunks read from the source and kept.
  std::uint64_t fetched_bytes = 0;  ///< Their bytes.
  std::uint64_t passes = 0;         ///< Ranges read from the source and not kept.
  std::uint64_t passed_bytes = 0;   ///< Their bytes.
  std::uint64_t healed = 0;         ///< Chunks that were damaged, and fetched again.
  std::uint64_t waits = 0;          ///< Ranges that another thread or process was fetching.
  std::uint64_t evicted = 0;        ///< Chunks removed to make room.
  std::uint64_t failures = 0;       ///< Operations of the local disk that failed.
  std::uint64_t used_bytes = 0;     ///< Of all files, of all processes, as last seen.
};

/// Keeps what is read of shards in a directory on a local disk, which any number of processes of
/// one machine may share: each chunk is fetched by one of them, checked on every read, and fetched
/// again if it is damaged. The files never have more than the size that was given. Chunks that the
/// orders of the running loaders need last are evicted first. docs/cache.md has the details.
///
/// The shards themselves are always enough: if the disk is full or fails, reads go to them, and
/// trouble() says why.
///
/// Thread safety: every method from any thread, also in a forked child. Copies are the same cache.
class STOKER_API Cache {
 public:
  /// Opens or creates a cache of at most `size_bytes`, at least 32 MiB. `invalid_argument` for a
  /// smaller one, and for a directory that has other files.
  static Result<Cache> open(std::string directory, std::uint64_t size_bytes);
  Cache(const Cache& other) noexcept;
  Cache& operator=(const Cache& other) noexcept;
  ~Cache();

  const std::string& directory() const noexcept;
  std::uint64_t size_bytes() const noexcept;
  CacheStats stats() const;
  /// Why the cache did not work at some time, the first reason; OK if it always did.
  Status trouble() const;

 private:
  friend class internal::CacheInside;
  explicit Cache(std::shared_ptr<ShardCache> cache) noexcept;
  std::shared_ptr<ShardCache> cache_;
};

}  // namespace stoker
