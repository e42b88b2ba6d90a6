#include "gpu/event_pool.h"

#include <new>
#include <utility>

namespace stoker {

Result<std::unique_ptr<OwnedCudaEvent>> CudaEventPool::take() {
  {
    MutexLock lock(mutex_);
    if (!free_.empty()) {
      std::unique_ptr<OwnedCudaEvent> event = std::move(free_.back());
      free_.pop_back();
      return event;
    }
  }
  return OwnedCudaEvent::make(device_);
}

void CudaEventPool::give_back(std::unique_ptr<OwnedCudaEvent> event) noexcept {
  try {
    MutexLock lock(mutex_);
    free_.push_back(std::move(event));
  } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): the next one is created
  }
}

}  // namespace stoker
