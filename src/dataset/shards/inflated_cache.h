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

/// The compressed shards that were inflated last, whole.
///
/// Thread safety: every method from any thread, also in a forked child. A child starts with an
/// empty cache of its own: at the fork another thread may have been inside the parent's, and nobody
/// would ever unlock the child's copy.
class InflatedCache {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;
  /// Shards kept: readers under shuffle jump between a few, and each may be large.
  static constexpr std::size_t kShardsMax = 4;

  InflatedCache() = default;
  InflatedCache(const InflatedCache&) = delete;
  InflatedCache& operator=(const InflatedCache&) = delete;
  ~InflatedCache();

  /// Null if it is not there.
  Bytes find(std::size_t shard);
  /// Takes the place of the one that came first.
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

  /// Acquire and release: whoever sees the pointer sees what it leads to.
  std::atomic<Slots*> slots_{nullptr};
};

}  // namespace stoker
