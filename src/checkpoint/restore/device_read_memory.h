#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/fork_guard.h"
#include "base/mutex.h"
#include "gpu/pinned_memory.h"
#include "io/engine/arena.h"
#include "stoker/status.h"

namespace stoker {

/// Pinned memory that reads to devices use one after the other: pinning it takes as long as reading
/// a few hundred megabytes from the page cache.
///
/// Thread safety: every method may be called from any thread.
class DeviceReadMemory {
 public:
  /// Keeps at most `keep_bytes` between reads.
  explicit DeviceReadMemory(std::uint64_t keep_bytes) : keep_bytes_(keep_bytes) {}

  /// Returns memory of at least `size_bytes`, pinned if the driver does.
  Result<std::unique_ptr<Arena>> take(std::size_t size_bytes,
                                      const std::shared_ptr<const CudaDevice>& device);
  /// Takes back memory that no device uses any more.
  void give_back(std::unique_ptr<Arena> arena) noexcept;

 private:
  const std::uint64_t keep_bytes_;
  const std::shared_ptr<PinnedMemory> pinned_ = PinnedMemory::make();
  const ForkGuard guard_;  // a child has none of it
  Mutex mutex_;
  std::vector<std::unique_ptr<Arena>> free_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t free_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace stoker
