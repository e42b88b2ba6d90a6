#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "gpu/cuda_device.h"
#include "gpu/event_pool.h"
#include "gpu/gather.h"
#include "stoker/status.h"

namespace stoker {

/// A copy from a device's memory.
struct DeviceCopy {
  CudaPointer from = 0;
  std::byte* to = nullptr;  ///< In host memory, or for a snapshot an address on the device.
  std::size_t size_bytes = 0;
};

/// One device, as saves use it: a stream to the host, and one for snapshots on the device, which
/// does not wait for copies to the host.
///
/// Thread safety: every method may be called from any thread.
class DeviceLane {
 public:
  /// Tensors smaller than this are gathered on the device first, if several follow each other.
  static constexpr std::size_t kSmallBytes = std::size_t{256} << 10;
  static constexpr std::size_t kRunMin = 8;
  static constexpr std::size_t kScratchBytes = std::size_t{4} << 20;

  static Result<std::unique_ptr<DeviceLane>> make(const CudaDriver& driver, int ordinal,
                                                  bool may_gather);
  ~DeviceLane();
  DeviceLane(const DeviceLane&) = delete;
  DeviceLane& operator=(const DeviceLane&) = delete;

  const std::shared_ptr<const CudaDevice>& device() const noexcept { return device_; }
  CudaStream to_host() const noexcept { return to_host_->get(); }
  CudaStream on_device() const noexcept { return on_device_->get(); }

  // These need a CudaScope of the device.

  /// Enqueues copies to host memory on to_host(). Those of small tensors that follow each other in
  /// both memories' order are gathered. At most kScratchBytes follow each other without a gap in
  /// `to`.
  Status enqueue_to_host(std::span<const DeviceCopy> copies);
  /// Enqueues copies to memory of the device on on_device().
  Status enqueue_on_device(std::span<const DeviceCopy> copies);

  /// Waits for what to_host() has been given: copies to memory that is not pinned do, and without a
  /// deadline. `unavailable` if it passes first.
  Status await_work(Deadline deadline) const;

  /// Waits for both streams: afterwards they neither read tensors nor write to memory. Their errors
  /// are known already.
  void await() const noexcept;
  /// The same, until the deadline. Returns whether it is so.
  bool await_until(Deadline deadline) const noexcept;

  CudaEventPool& events() noexcept { return events_; }

  /// Returns why small tensors are not gathered; OK if they are, or there were none.
  Status gather_failure() const;

 private:
  DeviceLane(std::shared_ptr<const CudaDevice> device, bool may_gather)
      : device_(std::move(device)), may_gather_(may_gather), events_(device_) {}
  bool try_await() const noexcept;
  std::size_t gathered_run(std::span<const DeviceCopy> copies);
  Status prepare_gather();
  Status enqueue_one(const DeviceCopy& copy);
  Status gather_to_host(std::span<const DeviceCopy> run);

  const std::shared_ptr<const CudaDevice> device_;
  const bool may_gather_;
  std::unique_ptr<OwnedCudaStream> to_host_;
  std::unique_ptr<OwnedCudaStream> on_device_;
  std::unique_ptr<CudaGather> gather_;  // null: every tensor is copied by itself
  const ForkGuard guard_;
  CudaPointer scratch_ = 0;  // written and read in the order of to_host()
  Mutex scratch_mutex_;      // keeps a gather and the copy of its result together

  std::once_flag gather_tried_;  // before gather_ and scratch_ are used

  mutable Mutex mutex_;
  Status gather_failure_ STOKER_GUARDED_BY(mutex_);
  CudaEventPool events_;
};

/// Waits for lanes at the end of a scope, even one that an exception ends: nothing reads or writes
/// memory for the caller afterwards, unless the deadline has passed.
///
/// Thread safety: none.
class AwaitLanes {
 public:
  /// Borrows the lanes, and their list. Sets `is_late` if the deadline passes first.
  explicit AwaitLanes(std::span<DeviceLane* const> lanes, Deadline deadline = Deadline::max(),
                      std::atomic<bool>* is_late = nullptr) noexcept
      : lanes_(lanes), deadline_(deadline), is_late_(is_late) {}
  ~AwaitLanes() {
    for (const DeviceLane* const lane : lanes_)
      if (!lane->await_until(deadline_) && is_late_ != nullptr)
        is_late_->store(true,
                        std::memory_order_relaxed);  // relaxed: read by this thread, or joined
  }
  AwaitLanes(const AwaitLanes&) = delete;
  AwaitLanes& operator=(const AwaitLanes&) = delete;

  /// It does not wait.
  void dismiss() noexcept { lanes_ = {}; }

 private:
  std::span<DeviceLane* const> lanes_;
  const Deadline deadline_;
  std::atomic<bool>* const is_late_;
};

}  // namespace stoker
