#include <utility>

#include "api/border.h"
#include "api/inside.h"
#include "dataset/batch/batch_data.h"
#include "gpu/cuda_feed.h"
#include "stoker/batch.h"
#include "stoker/device.h"

namespace stoker {

using internal::at_border;

namespace {

CudaStream handle_of(const DeviceStream& stream) noexcept {
  return static_cast<CudaStream>(stream.handle);
}

}  // namespace

class BatchCopy::Impl {
 public:
  explicit Impl(std::shared_ptr<const CudaFeed::Copy> copy) : copy_(std::move(copy)) {}
  const CudaFeed::Copy& get() const noexcept { return *copy_; }

 private:
  const std::shared_ptr<const CudaFeed::Copy> copy_;
};

BatchCopy::BatchCopy(std::shared_ptr<const Impl> impl) : impl_(std::move(impl)) {}

Status BatchCopy::delay(const DeviceStream& stream) const {
  return at_border([&] { return impl_->get().delay(handle_of(stream)); });
}

class DeviceFeed::Impl {
 public:
  explicit Impl(std::unique_ptr<CudaFeed> feed) : feed_(std::move(feed)) {}
  CudaFeed& get() const noexcept { return *feed_; }

 private:
  const std::unique_ptr<CudaFeed> feed_;
};

DeviceFeed::DeviceFeed(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
DeviceFeed::~DeviceFeed() = default;

Result<std::shared_ptr<DeviceFeed>> DeviceFeed::open(const DeviceStream& stream) {
  return at_border([&]() -> Result<std::shared_ptr<DeviceFeed>> {
    STOKER_ASSIGN(const CudaDriver* const driver, CudaDriver::find());
    STOKER_ASSIGN(std::shared_ptr<const CudaDevice> device,
                  CudaDevice::retain(*driver, stream.device));
    STOKER_ASSIGN(std::unique_ptr<CudaFeed> feed,
                  CudaFeed::make(std::move(device), handle_of(stream)));
    return std::shared_ptr<DeviceFeed>(new DeviceFeed(std::make_unique<Impl>(std::move(feed))));
  });
}

Status DeviceFeed::follow(const DeviceStream& stream) {
  return at_border([&] { return impl_->get().follow(handle_of(stream)); });
}

Result<BatchCopy> DeviceFeed::send(Batch& batch, const std::vector<Piece>& pieces) {
  return at_border([&]() -> Result<BatchCopy> {
    if (!batch || !batch.has_arrays())
      return internal::invalid("send: this batch has no arrays, or they were sent before");
    std::vector<CudaFeed::Piece> copies;
    for (const Piece& piece : pieces) copies.push_back({.to = piece.to, .from = piece.from});
    STOKER_ASSIGN(std::shared_ptr<const CudaFeed::Copy> copy,
                  impl_->get().send(copies, internal::BatchInside::take_arrays(batch)));
    return BatchCopy(std::make_shared<const BatchCopy::Impl>(std::move(copy)));
  });
}

Status DeviceFeed::memory_failure() const {
  return impl_->get().memory_failure();
}

DeviceFeed::Stats DeviceFeed::stats() const {
  const CudaFeed::Stats stats = impl_->get().stats();
  return {.copies = stats.copies, .bytes = stats.bytes, .busy = stats.busy};
}

ArenaMaker internal::DeviceFeedInside::memory(const DeviceFeed& feed) {
  return feed.impl_->get().memory();
}

}  // namespace stoker
