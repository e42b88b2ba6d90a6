#pragma once

#include <memory>
#include <vector>

#include "base/mutex.h"
#include "gpu/cuda_device.h"
#include "stoker/status.h"

namespace stoker {

/// Events of one device, used again and again: creating one takes longer than recording it.
///
/// Thread safety: every method may be called from any thread.
class CudaEventPool {
 public:
  explicit CudaEventPool(std::shared_ptr<const CudaDevice> device) : device_(std::move(device)) {}

  /// Returns an event that nobody uses.
  Result<std::unique_ptr<OwnedCudaEvent>> take();
  /// Takes back an event for which nobody waits any more. Waits that are enqueued on streams are
  /// not changed when it is recorded again.
  void give_back(std::unique_ptr<OwnedCudaEvent> event) noexcept;

 private:
  const std::shared_ptr<const CudaDevice> device_;
  Mutex mutex_;
  std::vector<std::unique_ptr<OwnedCudaEvent>> free_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
