#include "gpu/uploader.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <limits>
#include <utility>

namespace stoker {
namespace {

/// The kernel copies units of this size if all addresses allow it: the window keeps the alignment
/// of the host memory.
constexpr std::size_t kAlignBytes = 16;

std::size_t alignment_of(const std::byte* at) {
  return reinterpret_cast<std::uintptr_t>(at) % kAlignBytes;
}

/// Returns how many of the first copies are small, in the order of host memory, near each other,
/// and in the window together.
std::size_t small_run(std::span<const CudaUpload> uploads) {
  const std::byte* const first = uploads.front().from;
  const std::byte* end = first;
  std::size_t count = 0;
  for (const CudaUpload& upload : uploads) {
    if (upload.size_bytes >= CudaUploader::kSmallBytes || upload.from < end) break;
    if (static_cast<std::size_t>(upload.from - end) > CudaUploader::kGapBytes) break;
    end = upload.from + upload.size_bytes;
    if (static_cast<std::size_t>(end - first) > CudaUploader::kWindowBytes) break;
    ++count;
  }
  return count;
}

/// Returns how many of the first copies one call of the kernel can do: it writes within 4 GiB of
/// the lowest address, which is stored in `lowest`.
std::size_t reach_of(std::span<const CudaUpload> run, CudaPointer& lowest) {
  CudaPointer low = run.front().to;
  CudaPointer high = low;
  std::size_t count = 0;
  for (const CudaUpload& upload : run.first(std::min(run.size(), CudaGather::kPiecesMax))) {
    low = std::min(low, upload.to);
    high = std::max(high, upload.to);
    if (high - low > std::numeric_limits<std::uint32_t>::max()) break;
    lowest = low;
    ++count;
  }
  return count;
}

}  // namespace

void add_upload(std::vector<CudaUpload>& uploads, const CudaUpload& upload) {
  if (upload.size_bytes == 0) return;
  if (!uploads.empty()) {
    CudaUpload& last = uploads.back();
    const bool is_next =
        last.from + last.size_bytes == upload.from && last.to + last.size_bytes == upload.to;
    if (is_next) {
      last.size_bytes += upload.size_bytes;
      return;
    }
  }
  uploads.push_back(upload);
}

Result<std::unique_ptr<CudaUploader>> CudaUploader::make(const CudaDriver& driver, int ordinal) {
  STOKER_ASSIGN(std::shared_ptr<const CudaDevice> device, CudaDevice::retain(driver, ordinal));
  std::unique_ptr<CudaUploader> made(new CudaUploader(std::move(device)));
  STOKER_ASSIGN(made->stream_, OwnedCudaStream::make(made->device_));
  return made;
}

/// The kernel is loaded when the first small copies come: the driver may have to compile it.
bool CudaUploader::can_scatter() {
  std::call_once(scatter_, [this] { prepare_scatter(); });
  return kernel_ != nullptr;
}

/// Without the kernel or its memory, everything works, but many small copies take longer.
void CudaUploader::prepare_scatter() {
  Result<std::unique_ptr<CudaGather>> kernel = CudaGather::make(device_);
  if (!kernel.ok()) return;
  const CudaScope scope(*device_);
  if (!scope.status().ok()) return;
  if (device_->driver().mem_alloc(&window_, kWindowBytes + kAlignBytes) != kCudaSuccess) {
    window_ = 0;
    return;
  }
  kernel_ = *std::move(kernel);
}

CudaUploader::~CudaUploader() {
  stream_ = nullptr;  // waits for its work
  if (window_ == 0 || !guard_.is_here()) return;
  const CudaScope scope(*device_);
  if (scope.status().ok()) static_cast<void>(device_->driver().mem_free(window_));
}

Status CudaUploader::follow(CudaStream stream) {
  const CudaScope scope(*device_);
  STOKER_TRY(scope.status());
  STOKER_ASSIGN(const bool is_captured, device_->driver().is_capturing(stream));
  if (is_captured)
    return Status(Code::invalid_argument,
                  "a CUDA graph is being captured on the current stream, and reading a checkpoint "
                  "cannot be a part of it: do that before or after the capture");
  STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> ready, events_.take());
  STOKER_TRY(ready->record(stream));
  STOKER_TRY(ready->delay(stream_->get()));
  events_.give_back(std::move(ready));
  return {};
}

Status CudaUploader::copy(CudaPointer to, const std::byte* from, std::size_t size_bytes) const {
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.memcpy_htod_async(to, from, size_bytes, stream_->get()),
                      "cuMemcpyHtoDAsync");
}

Status CudaUploader::scatter(std::span<const CudaUpload> run) {
  const std::byte* const first = run.front().from;
  const auto size = static_cast<std::size_t>(run.back().from + run.back().size_bytes - first);
  const CudaPointer window = window_ + alignment_of(first);
  // Neither call waits for the device, unless a thousand are queued.
  MutexLock lock(window_mutex_);
  STOKER_TRY(copy(window, first, size));
  while (!run.empty()) {
    CudaPointer lowest = 0;
    const std::size_t count = reach_of(run, lowest);
    std::array<CudaGather::Piece, CudaGather::kPiecesMax> pieces;
    for (std::size_t i = 0; i < count; ++i)
      pieces[i] = {.from = window + static_cast<CudaPointer>(run[i].from - first),
                   .to_bytes = static_cast<std::uint32_t>(run[i].to - lowest),
                   .size_bytes = static_cast<std::uint32_t>(run[i].size_bytes)};
    STOKER_TRY(kernel_->enqueue(lowest, std::span(pieces).first(count), stream_->get()));
    run = run.subspan(count);
  }
  return {};
}

Status CudaUploader::enqueue(std::span<const CudaUpload> uploads, OwnedCudaEvent& done) {
  const CudaScope scope(*device_);
  STOKER_TRY(scope.status());
  bool may_scatter = true;
  while (!uploads.empty()) {
    const CudaUpload& first = uploads.front();
    const std::size_t run = may_scatter ? small_run(uploads) : 0;
    may_scatter = may_scatter && (run < kRunMin || can_scatter());
    const bool is_scattered = run >= kRunMin && may_scatter;
    if (is_scattered)
      STOKER_TRY(scatter(uploads.first(run)));
    else
      STOKER_TRY(copy(first.to, first.from, first.size_bytes));
    uploads = uploads.subspan(is_scattered ? run : 1);
  }
  return done.record(stream_->get());
}

Status CudaUploader::synchronize() const {
  const CudaScope scope(*device_);
  STOKER_TRY(scope.status());
  const CudaDriver& driver = device_->driver();
  return driver.check(driver.stream_synchronize(stream_->get()), "cuStreamSynchronize");
}

}  // namespace stoker
