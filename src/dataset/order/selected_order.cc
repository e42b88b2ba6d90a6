#include "dataset/order/selected_order.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/blake2b.h"
#include "base/hex.h"

namespace stoker {
namespace {

using SampleList = std::vector<std::uint64_t>;

class SelectedOrder final : public SampleOrder {
 public:
  SelectedOrder(std::shared_ptr<const SampleOrder> order, std::vector<Selection> selections)
      : order_(std::move(order)), selections_(std::move(selections)) {}

  std::uint64_t epoch_samples() const noexcept override { return order_->epoch_samples(); }
  std::uint64_t dataset_count() const noexcept override { return order_->dataset_count(); }

  SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept override {
    return selected(order_->at(epoch, position));
  }
  void fill(std::uint64_t epoch, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override {
    order_->fill(epoch, position, out);
    for (SampleRef& ref : out) ref = selected(ref);
  }

  std::optional<std::uint64_t> next_use(std::uint64_t epoch, std::uint64_t position,
                                        SampleRef sample) const noexcept override {
    if (sample.dataset >= selections_.size()) return std::nullopt;
    const auto* slice = std::get_if<SampleSlice>(&selections_[sample.dataset]);
    if (slice == nullptr) return std::nullopt;
    const auto distance = static_cast<std::int64_t>(sample.sample - slice->first);
    if (distance % slice->step != 0 || distance / slice->step < 0) return std::nullopt;
    const auto item = static_cast<std::uint64_t>(distance / slice->step);
    if (item >= slice->count) return std::nullopt;
    return order_->next_use(epoch, position, {.dataset = sample.dataset, .sample = item});
  }

  std::optional<LaneShape> lane_shape() const noexcept override { return order_->lane_shape(); }

  std::optional<BlockPlace> block_at(std::uint64_t epoch,
                                     std::uint64_t position) const noexcept override {
    const SampleSlice* slice = forward_slice();
    std::optional<BlockPlace> place = order_->block_at(epoch, position);
    if (slice == nullptr || !place) return std::nullopt;
    for (SampleRange& range : place->ranges) range.first += slice->first;
    return place;
  }

  std::vector<SampleRange> window_ranges(std::uint64_t epoch, std::uint64_t lane,
                                         std::uint64_t window) const override {
    const SampleSlice* slice = forward_slice();
    if (slice == nullptr) return {};
    std::vector<SampleRange> ranges = order_->window_ranges(epoch, lane, window);
    for (SampleRange& range : ranges) range.first += slice->first;
    return ranges;
  }

 private:
  SampleRef selected(const SampleRef& ref) const noexcept {
    const Selection& selection = selections_[ref.dataset];
    if (const auto* slice = std::get_if<SampleSlice>(&selection))
      return {.dataset = ref.dataset,
              .sample = slice->first + ref.sample * static_cast<std::uint64_t>(slice->step)};
    return {.dataset = ref.dataset, .sample = std::get<SampleList>(selection)[ref.sample]};
  }

  /// The slice, if it is the only selection and its neighbors are neighbors in the dataset.
  const SampleSlice* forward_slice() const noexcept {
    const auto* slice = std::get_if<SampleSlice>(&selections_.front());
    return selections_.size() == 1 && slice != nullptr && slice->step == 1 ? slice : nullptr;
  }

  const std::shared_ptr<const SampleOrder> order_;
  const std::vector<Selection> selections_;
};

Status outside(std::size_t dataset, std::uint64_t sample, std::uint64_t sample_count) {
  return Status(Code::invalid_argument,
                fmt::format("dataset {}: sample {} is selected, but there are only {}", dataset,
                            sample, sample_count));
}

Status check_slice(std::size_t dataset, const SampleSlice& slice, std::uint64_t sample_count) {
  if (slice.count == 0 || slice.step == 0)
    return Status(Code::invalid_argument,
                  fmt::format("dataset {}: no sample is selected", dataset));
  if (slice.first >= sample_count) return outside(dataset, slice.first, sample_count);
  const std::uint64_t size = slice.step > 0
                                 ? static_cast<std::uint64_t>(slice.step)
                                 : std::uint64_t{0} - static_cast<std::uint64_t>(slice.step);
  const std::uint64_t room = slice.step > 0 ? sample_count - 1 - slice.first : slice.first;
  if ((slice.count - 1) > room / size)
    return Status(
        Code::invalid_argument,
        fmt::format("dataset {}: {} samples from sample {} in steps of {} exceed its {} samples",
                    dataset, slice.count, slice.first, slice.step, sample_count));
  return {};
}

Status check_selection(std::size_t dataset, const Selection& selection,
                       std::uint64_t sample_count) {
  if (const auto* slice = std::get_if<SampleSlice>(&selection))
    return check_slice(dataset, *slice, sample_count);
  const SampleList& list = std::get<SampleList>(selection);
  if (list.empty())
    return Status(Code::invalid_argument,
                  fmt::format("dataset {}: no sample is selected", dataset));
  const std::uint64_t largest = *std::ranges::max_element(list);
  return largest < sample_count ? Status() : outside(dataset, largest, sample_count);
}

}  // namespace

Result<std::unique_ptr<SampleOrder>> make_selected_order(
    std::shared_ptr<const SampleOrder> order, std::vector<Selection> selections,
    const std::vector<std::uint64_t>& sample_counts) {
  if (selections.size() != order->dataset_count() || sample_counts.size() != selections.size())
    return Status(Code::invalid_argument,
                  fmt::format("{} selections and {} sample counts, but the order has {} datasets",
                              selections.size(), sample_counts.size(), order->dataset_count()));
  for (std::size_t i = 0; i < selections.size(); ++i)
    STOKER_TRY(check_selection(i, selections[i], sample_counts[i]));
  return std::unique_ptr<SampleOrder>(
      std::make_unique<SelectedOrder>(std::move(order), std::move(selections)));
}

Digest128 selection_fingerprint(const Digest128& whole, const Selection& selection) {
  Blake2b128 hash("stoker.select");
  std::array<std::byte, 16> text{};
  // The bytes in the order of the hex text. This cannot fail: parse_hex() reads what hex() writes.
  static_cast<void>(parse_hex(whole.hex(), text));
  hash.update(text);
  if (const auto* list = std::get_if<SampleList>(&selection)) {
    hash.update(std::as_bytes(std::span(*list)));
  } else {
    const auto& slice = std::get<SampleSlice>(selection);
    std::array<std::uint64_t, 1024> some{};
    for (std::uint64_t done = 0; done < slice.count;) {
      const std::uint64_t count = std::min<std::uint64_t>(some.size(), slice.count - done);
      for (std::uint64_t i = 0; i < count; ++i)
        some[i] = slice.first + (done + i) * static_cast<std::uint64_t>(slice.step);
      hash.update(std::as_bytes(std::span(some).first(count)));
      done += count;
    }
  }
  const Result<Digest128> made = Digest128::from_hex(format_hex(hash.digest()));
  return made.ok() ? *made : Digest128();  // 32 digits are always valid
}

}  // namespace stoker
