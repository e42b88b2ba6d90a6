/// \file
/// Base class of the orders of one dataset.
#pragma once

#include "dataset/order/order.h"

namespace stoker::internal {

/// An order of `sample_count` samples of one dataset, each epoch as long as the dataset.
///
/// Thread safety: as SampleOrder.
class SingleOrder : public SampleOrder {
 public:
  explicit SingleOrder(std::uint64_t sample_count) noexcept : sample_count_(sample_count) {}

  std::uint64_t epoch_samples() const noexcept final { return sample_count_; }
  std::uint64_t dataset_count() const noexcept final { return 1; }
  std::optional<std::uint64_t> next_use(std::uint64_t epoch, std::uint64_t position,
                                        SampleRef sample) const noexcept final;

 protected:
  /// The position of `sample`, which exists, in the epoch; nothing if the order cannot compute it.
  virtual std::optional<std::uint64_t> position_of(std::uint64_t epoch,
                                                   std::uint64_t sample) const noexcept = 0;
  /// The position modulo the length of the epoch.
  std::uint64_t wrapped(std::uint64_t position) const noexcept {
    return position < sample_count_ ? position : position % sample_count_;
  }

 private:
  std::uint64_t sample_count_;
};

/// Makes the order of Shuffle::block. `options` must be resolved.
std::unique_ptr<SampleOrder> make_lane_order(const OrderOptions& options);

}  // namespace stoker::internal
