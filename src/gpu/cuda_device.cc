#include "gpu/cuda_device.h"

#include <chrono>
#include <string>
#include <thread>
#include <utility>

namespace stoker {
namespace {

/// The driver cannot wait for a time. Several chunks are copied in less than the pause, and more
/// are in flight.
constexpr auto kPause = std::chrono::microseconds(50);

}  // namespace

// The results of calls that give something back are ignored: they return the error of earlier work,
// which was reported where somebody waited for that work.

Result<std::shared_ptr<const CudaDevice>> CudaDevice::retain(const CudaDriver& driver,
                                                             int ordinal) {
  const std::string context = "CUDA device " + std::to_string(ordinal);
  int device = 0;
  unsigned flags = 0;
  int is_active = 0;
  STOKER_TRY(
      driver.check(driver.device_get(&device, ordinal), "cuDeviceGet").with_context(context));
  STOKER_TRY(driver
                 .check(driver.primary_ctx_get_state(device, &flags, &is_active),
                        "cuDevicePrimaryCtxGetState")
                 .with_context(context));
  if (is_active == 0)
    return Status(Code::invalid_argument, context + ": this process does not use it yet");
  return create(driver, ordinal);
}

Result<std::shared_ptr<const CudaDevice>> CudaDevice::create(const CudaDriver& driver,
                                                             int ordinal) {
  const std::string context = "CUDA device " + std::to_string(ordinal);
  int device = 0;
  CudaContext primary = nullptr;
  STOKER_TRY(
      driver.check(driver.device_get(&device, ordinal), "cuDeviceGet").with_context(context));
  STOKER_TRY(driver.check(driver.primary_ctx_retain(&primary, device), "cuDevicePrimaryCtxRetain")
                 .with_context(context));
  return std::shared_ptr<const CudaDevice>(new CudaDevice(driver, ordinal, device, primary));
}

CudaDevice::~CudaDevice() {
  if (guard_.is_here()) static_cast<void>(driver_.primary_ctx_release(device_));
}

CudaScope::CudaScope(const CudaDevice& device) : driver_(device.driver()) {
  status_ = driver_.check(driver_.ctx_push_current(device.context()), "cuCtxPushCurrent");
  if (!status_.ok()) return;
  has_mode_ = driver_.thread_exchange_capture_mode(&mode_) == kCudaSuccess;
}

CudaScope::~CudaScope() {
  if (!status_.ok()) return;
  if (has_mode_) static_cast<void>(driver_.thread_exchange_capture_mode(&mode_));
  CudaContext popped = nullptr;
  static_cast<void>(driver_.ctx_pop_current(&popped));
}

Result<std::unique_ptr<OwnedCudaStream>> OwnedCudaStream::make(
    std::shared_ptr<const CudaDevice> device) {
  const CudaScope scope(*device);
  STOKER_TRY(scope.status());
  CudaStream stream = nullptr;
  STOKER_TRY(device->driver().check(device->driver().stream_create(&stream, kCudaStreamNonBlocking),
                                    "cuStreamCreate"));
  return std::unique_ptr<OwnedCudaStream>(new OwnedCudaStream(std::move(device), stream));
}

OwnedCudaStream::~OwnedCudaStream() {
  if (!guard_.is_here()) return;
  const CudaScope scope(*device_);
  if (!scope.status().ok()) return;
  static_cast<void>(device_->driver().stream_synchronize(stream_));
  static_cast<void>(device_->driver().stream_destroy(stream_));
}

bool OwnedCudaStream::await_until(Deadline deadline) const {
  for (int failures = 0; failures < kFailuresOfBroken;) {
    const CudaResult result = device_->driver().stream_query(stream_);
    if (result == kCudaSuccess) return true;
    failures += result == kCudaNotReady ? 0 : 1;
    if (Clock::now() >= deadline) return false;
    if (result == kCudaNotReady) std::this_thread::sleep_for(kPause);
  }
  return true;
}

Result<std::unique_ptr<OwnedCudaEvent>> OwnedCudaEvent::make(
    std::shared_ptr<const CudaDevice> device) {
  const CudaScope scope(*device);
  STOKER_TRY(scope.status());
  CudaEvent event = nullptr;
  const unsigned flags = kCudaEventDisableTiming | kCudaEventBlockingSync;
  STOKER_TRY(device->driver().check(device->driver().event_create(&event, flags), "cuEventCreate"));
  return std::unique_ptr<OwnedCudaEvent>(new OwnedCudaEvent(std::move(device), event));
}

OwnedCudaEvent::~OwnedCudaEvent() {
  if (!guard_.is_here()) return;
  const CudaScope scope(*device_);
  if (scope.status().ok()) static_cast<void>(device_->driver().event_destroy(event_));
}

Status OwnedCudaEvent::record(CudaStream stream) {
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.event_record(event_, stream), "cuEventRecord");
}

Status OwnedCudaEvent::delay(CudaStream stream) const {
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.stream_wait_event(stream, event_, 0), "cuStreamWaitEvent");
}

Status OwnedCudaEvent::synchronize() const {
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.event_synchronize(event_), "cuEventSynchronize");
}

Status device_is_late(const CudaDevice& device) {
  return Status(Code::unavailable, "the deadline passed while device " +
                                       std::to_string(device.ordinal()) +
                                       " was copying: it does not answer, or has much to do");
}

Status OwnedCudaEvent::synchronize_until(Deadline deadline) const {
  if (deadline == Deadline::max()) return synchronize();
  for (;;) {
    STOKER_ASSIGN(const bool is_over, is_done());
    if (is_over) return {};
    if (Clock::now() >= deadline) return device_is_late(*device_);
    std::this_thread::sleep_for(kPause);
  }
}

Result<bool> OwnedCudaEvent::is_done() const {
  const CudaDriver& driver = device_->driver();
  const CudaResult result = driver.event_query(event_);
  if (result == kCudaNotReady) return false;
  STOKER_TRY(driver.check(result, "cuEventQuery"));
  return true;
}

}  // namespace stoker
