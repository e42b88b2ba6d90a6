#include "dataset/order/explicit_order.h"

#include <array>
#include <string>
#include <utility>

namespace stoker {
namespace {

class ExplicitOrder final : public SampleOrder {
 public:
  explicit ExplicitOrder(std::vector<std::uint64_t> items) : items_(std::move(items)) {}

  std::uint64_t epoch_samples() const noexcept override { return items_.size(); }
  std::uint64_t dataset_count() const noexcept override { return 1; }
  SampleRef at(std::uint64_t /*epoch*/, std::uint64_t position) const noexcept override {
    return {.sample = items_[position % items_.size()]};
  }
  void fill(std::uint64_t epoch, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = at(epoch, position + i);
  }
  std::optional<std::uint64_t> next_use(std::uint64_t /*epoch*/, std::uint64_t /*position*/,
                                        SampleRef /*sample*/) const noexcept override {
    return std::nullopt;  // would need a table as long as the list
  }

 private:
  const std::vector<std::uint64_t> items_;
};

}  // namespace

Result<std::unique_ptr<SampleOrder>> make_explicit_order(std::vector<std::uint64_t> items,
                                                         std::uint64_t sample_count) {
  if (items.empty()) return Status(Code::invalid_argument, "the order has no samples");
  for (std::size_t i = 0; i < items.size(); ++i)
    if (items[i] >= sample_count)
      return Status(Code::invalid_argument,
                    "item " + std::to_string(i) + " of the order is sample " +
                        std::to_string(items[i]) + ", but the dataset's sample count is " +
                        std::to_string(sample_count));
  return std::unique_ptr<SampleOrder>(std::make_unique<ExplicitOrder>(std::move(items)));
}

Digest128 explicit_order_fingerprint(const Digest128& dataset,
                                     std::span<const std::uint64_t> items) noexcept {
  Xxh3Stream hash;
  const std::array<std::uint64_t, 2> words = {dataset.low, dataset.high};
  hash.update(std::as_bytes(std::span(words)));
  hash.update(std::as_bytes(items));
  return hash.digest();
}

}  // namespace stoker
