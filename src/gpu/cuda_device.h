#pragma once

#include <memory>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "gpu/cuda_driver.h"
#include "stoker/status.h"

namespace stoker {

/// A device's primary context, which torch and the CUDA runtime use as well: retained, and released
/// by the destructor.
///
/// Thread safety: immutable.
class CudaDevice {
 public:
  /// `driver` must outlive the device. `invalid_argument` if this process has not used the device
  /// yet: creating its context would take memory there.
  static Result<std::shared_ptr<const CudaDevice>> retain(const CudaDriver& driver, int ordinal);
  /// The same, but creates the context: for a program that uses CUDA only through this.
  static Result<std::shared_ptr<const CudaDevice>> create(const CudaDriver& driver, int ordinal);
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;
  ~CudaDevice();

  int ordinal() const noexcept { return ordinal_; }
  const CudaDriver& driver() const noexcept { return driver_; }
  CudaContext context() const noexcept { return context_; }

 private:
  CudaDevice(const CudaDriver& driver, int ordinal, int device, CudaContext context)
      : driver_(driver), ordinal_(ordinal), device_(device), context_(context) {}

  const CudaDriver& driver_;
  const int ordinal_;
  const int device_;
  const CudaContext context_;
  const ForkGuard guard_;  // the context belongs to the process that retained it
};

/// Makes a device current for the calling thread, for the duration of a scope, and sets the
/// thread's capture mode to relaxed: a CUDA graph that another thread captures meanwhile stays
/// valid.
///
/// Thread safety: none; it is of one thread.
class CudaScope {
 public:
  explicit CudaScope(const CudaDevice& device);
  ~CudaScope();
  CudaScope(const CudaScope&) = delete;
  CudaScope& operator=(const CudaScope&) = delete;

  /// Whether the device is current. Nothing may be called if not.
  const Status& status() const noexcept { return status_; }

 private:
  const CudaDriver& driver_;
  int mode_ = kCudaCaptureModeRelaxed;  // the one to go back to
  bool has_mode_ = false;
  Status status_;
};

/// A broken device answers each call with its error, at once. One failed call does not show that
/// the work of a stream has ended: so many in a row do.
constexpr int kFailuresOfBroken = 3;

/// A stream that is not ordered with the default stream. The destructor waits for its work.
///
/// Thread safety: immutable.
class OwnedCudaStream {
 public:
  static Result<std::unique_ptr<OwnedCudaStream>> make(std::shared_ptr<const CudaDevice> device);
  ~OwnedCudaStream();
  OwnedCudaStream(const OwnedCudaStream&) = delete;
  OwnedCudaStream& operator=(const OwnedCudaStream&) = delete;

  CudaStream get() const noexcept { return stream_; }

  /// Waits until it has nothing to do any more, or has failed. Returns false if `deadline` passes
  /// first. Needs a CudaScope of the device.
  bool await_until(Deadline deadline) const;

 private:
  OwnedCudaStream(std::shared_ptr<const CudaDevice> device, CudaStream stream)
      : device_(std::move(device)), stream_(stream) {}
  const std::shared_ptr<const CudaDevice> device_;
  const CudaStream stream_;
  const ForkGuard guard_;
};

/// The failure of what has waited for the device until a deadline.
Status device_is_late(const CudaDevice& device);

/// An event without a time, for which a thread waits without spinning.
///
/// Thread safety: record() is for one thread at a time; the others may be called from any thread.
class OwnedCudaEvent {
 public:
  static Result<std::unique_ptr<OwnedCudaEvent>> make(std::shared_ptr<const CudaDevice> device);
  ~OwnedCudaEvent();
  OwnedCudaEvent(const OwnedCudaEvent&) = delete;
  OwnedCudaEvent& operator=(const OwnedCudaEvent&) = delete;

  CudaEvent get() const noexcept { return event_; }
  const CudaDevice& device() const noexcept { return *device_; }

  // These need a CudaScope of the device.
  Status record(CudaStream stream);
  /// The work that `stream` gets from now on waits for the event.
  Status delay(CudaStream stream) const;
  /// Waits. Returns an error if any work of the context has failed until then.
  Status synchronize() const;
  /// The same; `unavailable` if `deadline` passes first.
  Status synchronize_until(Deadline deadline) const;
  /// Whether synchronize() would not wait. Returns its error.
  Result<bool> is_done() const;

 private:
  OwnedCudaEvent(std::shared_ptr<const CudaDevice> device, CudaEvent event)
      : device_(std::move(device)), event_(event) {}
  const std::shared_ptr<const CudaDevice> device_;
  const CudaEvent event_;
  const ForkGuard guard_;
};

}  // namespace stoker
