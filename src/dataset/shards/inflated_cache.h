#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"

namespace stoker {

/// Caches the compressed shards that were decompressed last, each as a whole.
///
/// Thread safety: every method from any thread, also in a forked child. A child starts with its own
/// empty cache: another thread may have held the parent's lock at the fork, and the child's copy
/// would never be unlocked.
class InflatedCache {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  /// Number of shards kept: shuffled reads alternate between a few, and each may be large.
  static constexpr std::size_t kShardsMax = 4;

  InflatedCache() = default;
  InflatedCache(const InflatedCache&) = delete;
  InflatedCache& operator=(const InflatedCache&) = delete;
  ~InflatedCache();

  /// Returns null if the shard is not cached.
  Bytes find(std::size_t shard);
  /// Replaces the oldest shard.
  void put(std::size_t shard, Bytes bytes);

 private:
  struct Slot {
    std::size_t shard = 0;
    Bytes bytes;
  };
  struct Slots {
    const ForkGuard made_here;
    Mutex mutex;
    std::array<Slot, kShardsMax> slots STOKER_GUARDED_BY(mutex);
    std::size_t next STOKER_GUARDED_BY(mutex) = 0;
  };
  Slots& here();

  /// Acquire and release: a thread that sees the pointer also sees the object.
  std::atomic<Slots*> slots_{nullptr};
};

}  // namespace stoker
