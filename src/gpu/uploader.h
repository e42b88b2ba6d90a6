#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "gpu/cuda_device.h"
#include "gpu/event_pool.h"
#include "gpu/gather.h"
#include "stoker/status.h"

namespace stoker {

/// A copy from host memory to a device's.
struct CudaUpload {
  CudaPointer to = 0;
  const std::byte* from = nullptr;
  std::size_t size_bytes = 0;
};

/// Appends a copy, or extends the last one if both are adjacent in both memories. All copies must
/// be to one allocation: the driver refuses a copy that spans two.
void add_upload(std::vector<CudaUpload>& uploads, const CudaUpload& upload);

/// Copies host memory to one device, on a stream of its own. The destructor waits for all copies.
///
/// Thread safety: every method may be called from any thread.
class CudaUploader {
 public:
  /// Copies smaller than this that are near each other in host memory cross the link as one; a
  /// kernel then distributes them on the device.
  static constexpr std::size_t kSmallBytes = std::size_t{256} << 10;
  static constexpr std::size_t kRunMin = 8;
  static constexpr std::size_t kWindowBytes = std::size_t{4} << 20;
  /// The largest gap in host memory that is copied along: it takes less time than another copy.
  static constexpr std::size_t kGapBytes = std::size_t{128} << 10;

  static Result<std::unique_ptr<CudaUploader>> make(const CudaDriver& driver, int ordinal);
  ~CudaUploader();
  CudaUploader(const CudaUploader&) = delete;
  CudaUploader& operator=(const CudaUploader&) = delete;

  const std::shared_ptr<const CudaDevice>& device() const noexcept { return device_; }

  /// What is enqueued from now on waits for the work that `stream` has now. `invalid_argument` if
  /// the stream captures a CUDA graph.
  Status follow(CudaStream stream);
  /// Enqueues copies, in the order of their host memory, which must not change until `done`, an
  /// event of the device, which is recorded behind them. After an error some may be enqueued.
  Status enqueue(std::span<const CudaUpload> uploads, OwnedCudaEvent& done);
  /// Waits for everything. An error is that of the work, or of any other on the device.
  Status synchronize() const;

  CudaEventPool& events() noexcept { return events_; }

 private:
  explicit CudaUploader(std::shared_ptr<const CudaDevice> device)
      : device_(std::move(device)), events_(device_) {}
  bool can_scatter();
  void prepare_scatter();
  Status copy(CudaPointer to, const std::byte* from, std::size_t size_bytes) const;
  Status scatter(std::span<const CudaUpload> run);

  const std::shared_ptr<const CudaDevice> device_;
  std::unique_ptr<OwnedCudaStream> stream_;
  std::once_flag scatter_;
  std::unique_ptr<CudaGather> kernel_;  // null: everything is copied by itself
  const ForkGuard guard_;
  CudaPointer window_ = 0;  // written and read in the order of the stream
  Mutex window_mutex_;      // keeps the copy to the window and the kernels that read it together
  CudaEventPool events_;
};

}  // namespace stoker
