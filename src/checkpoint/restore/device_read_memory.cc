#include "checkpoint/restore/device_read_memory.h"

#include <algorithm>
#include <new>
#include <utility>

namespace stoker {

Result<std::unique_ptr<Arena>> DeviceReadMemory::take(
    std::size_t size_bytes, const std::shared_ptr<const CudaDevice>& device) {
  if (guard_.is_here()) {
    MutexLock lock(mutex_);
    // Reads ask for the same size each time.
    const auto found = std::ranges::find_if(free_, [&](const std::unique_ptr<Arena>& arena) {
      return arena->bytes().size() >= size_bytes && arena->bytes().size() / 2 <= size_bytes;
    });
    if (found != free_.end()) {
      std::unique_ptr<Arena> arena = std::move(*found);
      free_.erase(found);
      free_bytes_ -= arena->bytes().size();
      return arena;
    }
  }
  STOKER_ASSIGN(std::unique_ptr<Arena> made, pinned_->maker(/*touch=*/false)(size_bytes));
  // For all devices. If that fails, the driver copies by way of pinned memory of its own.
  pinned_->pin(made->bytes(), device);
  return made;
}

void DeviceReadMemory::give_back(std::unique_ptr<Arena> arena) noexcept {
  if (!guard_.is_here()) return;
  try {
    MutexLock lock(mutex_);
    const std::size_t size_bytes = arena->bytes().size();
    if (free_bytes_ + size_bytes > keep_bytes_) return;
    free_.push_back(std::move(arena));
    free_bytes_ += size_bytes;
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): it is freed
  }
}

}  // namespace stoker
