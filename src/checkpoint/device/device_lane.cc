#include "checkpoint/device/device_lane.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <list>
#include <new>
#include <utility>

namespace stoker {
namespace {

bool is_small(const DeviceCopy& copy) {
  return copy.size_bytes < DeviceLane::kSmallBytes;
}

/// Returns how many of the first copies are small, to adjacent memory, and small enough together.
std::size_t small_run(std::span<const DeviceCopy> copies) {
  std::size_t count = 0;
  std::size_t total = 0;
  while (count < std::min(copies.size(), CudaGather::kPiecesMax)) {
    const DeviceCopy& copy = copies[count];
    const bool is_next = copy.to == copies.front().to + total;
    if (!is_small(copy) || !is_next || total + copy.size_bytes > DeviceLane::kScratchBytes) break;
    total += copy.size_bytes;
    ++count;
  }
  return count;
}

/// What a device may still use.
struct Kept {
  std::unique_ptr<OwnedCudaStream> to_host;
  std::unique_ptr<OwnedCudaStream> on_device;
  std::unique_ptr<CudaGather> gather;
};

/// Keeps it until the process ends: destroying it would wait for the device. In a list, so that
/// leak checkers do not report it.
void keep(Kept lane) noexcept {
  static Mutex mutex;
  static auto* const kept = new std::list<Kept>();  // NOLINT: no memory left ends the program
  const MutexLock lock(mutex);
  kept->push_back(std::move(lane));
}

CudaPointer as_pointer(const std::byte* address) {
  return reinterpret_cast<CudaPointer>(address);
}

/// Fills in the pieces of a gather and returns the size of all.
std::size_t describe_run(std::span<const DeviceCopy> run, std::span<CudaGather::Piece> pieces) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < run.size(); ++i) {
    pieces[i] = {.from = run[i].from,
                 .to_bytes = static_cast<std::uint32_t>(total),
                 .size_bytes = static_cast<std::uint32_t>(run[i].size_bytes)};
    total += run[i].size_bytes;
  }
  return total;
}

}  // namespace

Result<std::unique_ptr<DeviceLane>> DeviceLane::make(const CudaDriver& driver, int ordinal,
                                                     bool may_gather) {
  STOKER_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::retain(driver, ordinal));
  std::unique_ptr<DeviceLane> lane(new DeviceLane(std::move(device), may_gather));
  STOKER_ASSIGN(lane->to_host_, OwnedCudaStream::make(lane->device_));
  STOKER_ASSIGN(lane->on_device_, OwnedCudaStream::make(lane->device_));
  return lane;
}

Status DeviceLane::prepare_gather() {
  STOKER_ASSIGN(std::unique_ptr<CudaGather> gather, CudaGather::make(device_));
  const CudaDriver& driver = device_->driver();
  CudaPointer scratch = 0;
  STOKER_TRY(driver.check(driver.mem_alloc(&scratch, kScratchBytes), "cuMemAlloc"));
  scratch_ = scratch;
  gather_ = std::move(gather);
  return {};
}

/// Returns how many of the first copies are to be gathered; 0: the first is to be copied by itself.
/// Without the kernel or its memory everything works, but many small tensors take longer.
std::size_t DeviceLane::gathered_run(std::span<const DeviceCopy> copies) {
  if (!may_gather_) return 0;
  const std::size_t run = small_run(copies);
  if (run < kRunMin) return 0;
  std::call_once(gather_tried_, [this] {
    Status failure = prepare_gather();
    MutexLock lock(mutex_);
    gather_failure_ = std::move(failure);
  });
  return gather_ == nullptr ? 0 : run;
}

Status DeviceLane::gather_failure() const {
  MutexLock lock(mutex_);
  return gather_failure_;
}

DeviceLane::~DeviceLane() {
  if (guard_.is_here() && to_host_ != nullptr && on_device_ != nullptr &&
      !await_until(Clock::now())) {
    // A failed save has left the streams waiting for one of the caller's, and nothing of ours
    // behind that. The scratch memory is not freed either.
    keep({.to_host = std::move(to_host_),
          .on_device = std::move(on_device_),
          .gather = std::move(gather_)});
    return;
  }
  on_device_ = nullptr;  // both wait for their work
  to_host_ = nullptr;
  if (scratch_ == 0 || !guard_.is_here()) return;
  const CudaScope scope(*device_);
  if (scope.status().ok()) static_cast<void>(device_->driver().mem_free(scratch_));
}

Status DeviceLane::enqueue_one(const DeviceCopy& copy) {
  const CudaDriver& driver = device_->driver();
  return driver.check(
      driver.memcpy_dtoh_async(copy.to, copy.from, copy.size_bytes, to_host_->get()),
      "cuMemcpyDtoHAsync");
}

Status DeviceLane::gather_to_host(std::span<const DeviceCopy> run) {
  std::array<CudaGather::Piece, CudaGather::kPiecesMax> pieces;
  const std::size_t total = describe_run(run, pieces);
  // Enqueues two calls while it is held; neither waits for the device, unless a thousand are
  // queued.
  MutexLock lock(scratch_mutex_);
  STOKER_TRY(gather_->enqueue(scratch_, std::span(pieces).first(run.size()), to_host_->get()));
  return enqueue_one({.from = scratch_, .to = run.front().to, .size_bytes = total});
}

Status DeviceLane::enqueue_to_host(std::span<const DeviceCopy> copies) {
  while (!copies.empty()) {
    const std::size_t run = gathered_run(copies);
    if (run > 0)
      STOKER_TRY(gather_to_host(copies.first(run)));
    else
      STOKER_TRY(enqueue_one(copies.front()));
    copies = copies.subspan(std::max<std::size_t>(run, 1));
  }
  return {};
}

Status DeviceLane::enqueue_on_device(std::span<const DeviceCopy> copies) {
  const CudaDriver& driver = device_->driver();
  while (!copies.empty()) {
    const std::size_t run = gathered_run(copies);
    if (run > 0) {
      std::array<CudaGather::Piece, CudaGather::kPiecesMax> pieces;
      describe_run(copies.first(run), pieces);
      STOKER_TRY(gather_->enqueue(as_pointer(copies.front().to), std::span(pieces).first(run),
                                  on_device_->get()));
    } else {
      const DeviceCopy& copy = copies.front();
      STOKER_TRY(driver.check(driver.memcpy_dtod_async(as_pointer(copy.to), copy.from,
                                                       copy.size_bytes, on_device_->get()),
                              "cuMemcpyDtoDAsync"));
    }
    copies = copies.subspan(std::max<std::size_t>(run, 1));
  }
  return {};
}

Status DeviceLane::await_work(Deadline deadline) const {
  if (to_host_->await_until(deadline)) return {};
  return device_is_late(*device_);
}

/// Waits for both streams; false if a call failed, which need not mean that they have ended.
bool DeviceLane::try_await() const noexcept {
  try {
    const CudaScope scope(*device_);
    if (!scope.status().ok()) return false;
    const CudaDriver& driver = device_->driver();
    const bool has_copied = driver.stream_synchronize(to_host_->get()) == kCudaSuccess;
    return driver.stream_synchronize(on_device_->get()) == kCudaSuccess && has_copied;
  } catch (const std::bad_alloc&) {  // for a message
    return false;
  }
}

void DeviceLane::await() const noexcept {
  for (int tries = 0; tries < kFailuresOfBroken && !try_await(); ++tries) {
  }
}

bool DeviceLane::await_until(Deadline deadline) const noexcept {
  if (deadline == Deadline::max()) {
    await();
    return true;
  }
  for (int tries = 0; tries < kFailuresOfBroken; ++tries) {
    try {
      const CudaScope scope(*device_);
      if (!scope.status().ok()) continue;
      return to_host_->await_until(deadline) && on_device_->await_until(deadline);
    } catch (const std::bad_alloc&) {  // for a message: it is not known
      return false;
    }
  }
  return true;
}

}  // namespace stoker
