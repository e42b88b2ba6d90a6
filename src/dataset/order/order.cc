#include "dataset/order/order.h"

#include <fmt/format.h>

#include <algorithm>

#include "dataset/order/order_hash.h"
#include "dataset/order/single_order.h"

namespace stoker {
namespace {

using internal::OrderHash;
using internal::Purpose;
using internal::SingleOrder;

constexpr std::array<std::string_view, 4> kShuffleNames = {"off", "global", "block", "resampled"};

class StoredOrder final : public SingleOrder {
 public:
  using SingleOrder::SingleOrder;

  SampleRef at(std::uint64_t /*epoch*/, std::uint64_t position) const noexcept override {
    return {.dataset = 0, .sample = wrapped(position)};
  }
  void fill(std::uint64_t /*epoch*/, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override {
    position = wrapped(position);
    for (SampleRef& ref : out) {
      ref = {.dataset = 0, .sample = position};
      if (++position == epoch_samples()) position = 0;
    }
  }

 protected:
  std::optional<std::uint64_t> position_of(std::uint64_t /*epoch*/,
                                           std::uint64_t sample) const noexcept override {
    return sample;
  }
};

class GlobalOrder final : public SingleOrder {
 public:
  GlobalOrder(std::uint64_t sample_count, std::uint64_t seed) noexcept
      : SingleOrder(sample_count), seeded_(OrderHash(Purpose::global).with(seed)) {}

  SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept override {
    return {.dataset = 0, .sample = permutation(epoch)(wrapped(position))};
  }
  void fill(std::uint64_t epoch, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override {
    const Permutation permuted = permutation(epoch);
    position = wrapped(position);
    for (SampleRef& ref : out) {
      ref = {.dataset = 0, .sample = permuted(position)};
      if (++position == epoch_samples()) position = 0;
    }
  }

 protected:
  std::optional<std::uint64_t> position_of(std::uint64_t epoch,
                                           std::uint64_t sample) const noexcept override {
    return permutation(epoch).inverse(sample);
  }

 private:
  Permutation permutation(std::uint64_t epoch) const noexcept {
    return {epoch_samples(), seeded_.with(epoch).key()};
  }

  OrderHash seeded_;
};

class ResampledOrder final : public SingleOrder {
 public:
  ResampledOrder(std::uint64_t sample_count, std::uint64_t seed) noexcept
      : SingleOrder(sample_count), seeded_(OrderHash(Purpose::resampled).with(seed)) {}

  SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept override {
    return draw(seeded_.with(epoch), wrapped(position));
  }
  void fill(std::uint64_t epoch, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override {
    const OrderHash hash = seeded_.with(epoch);
    position = wrapped(position);
    for (SampleRef& ref : out) {
      ref = draw(hash, position);
      if (++position == epoch_samples()) position = 0;
    }
  }

 protected:
  std::optional<std::uint64_t> position_of(std::uint64_t /*epoch*/,
                                           std::uint64_t /*sample*/) const noexcept override {
    return std::nullopt;
  }

 private:
  /// The top 64 bits of hash * N: uniform to within N / 2^64.
  SampleRef draw(OrderHash hash, std::uint64_t position) const noexcept {
    __extension__ using Wide = unsigned __int128;
    const Wide product = static_cast<Wide>(hash.with(position).value()) * epoch_samples();
    return {.dataset = 0, .sample = static_cast<std::uint64_t>(product >> 64)};
  }

  OrderHash seeded_;
};

Status invalid(std::string message) {
  return Status(Code::invalid_argument, "order: " + std::move(message));
}

}  // namespace

namespace internal {

std::optional<std::uint64_t> SingleOrder::next_use(std::uint64_t epoch, std::uint64_t position,
                                                   SampleRef sample) const noexcept {
  if (sample.dataset != 0 || sample.sample >= sample_count_) return std::nullopt;
  position = wrapped(position);
  const std::optional<std::uint64_t> now = position_of(epoch, sample.sample);
  if (!now) return std::nullopt;
  if (*now >= position) return *now - position;
  // Already passed in this epoch; the next one has every sample again.
  const std::optional<std::uint64_t> then = position_of(epoch + 1, sample.sample);
  return sample_count_ - position + then.value_or(0);
}

}  // namespace internal

std::string_view shuffle_name(Shuffle shuffle) noexcept {
  const auto number = static_cast<std::size_t>(shuffle);
  return number < kShuffleNames.size() ? kShuffleNames[number] : "unknown";
}

Result<Shuffle> parse_shuffle(std::string_view name) {
  const auto found = std::ranges::find(kShuffleNames, name);
  if (found == kShuffleNames.end())
    return invalid(
        fmt::format("shuffle is one of {}, not '{}'", fmt::join(kShuffleNames, ", "), name));
  return static_cast<Shuffle>(found - kShuffleNames.begin());
}

std::uint64_t default_lanes(std::uint64_t deal_samples) noexcept {
  for (std::uint64_t lanes = std::min(deal_samples, kLanesMax); lanes > 1; --lanes)
    if (deal_samples % lanes == 0) return lanes;
  return 1;
}

Result<OrderOptions> resolve_order(const OrderOptions& options) {
  if (options.sample_count == 0) return invalid("there are no samples");
  if (options.sample_count > Permutation::kCountMax)
    return invalid(fmt::format("{} samples are more than 2^62", options.sample_count));
  if (static_cast<std::size_t>(options.shuffle) >= kShuffleNames.size())
    return invalid("no such shuffle");
  if (options.shuffle != Shuffle::block)
    return OrderOptions{
        .shuffle = options.shuffle, .seed = options.seed, .sample_count = options.sample_count};
  OrderOptions resolved = options;
  if (resolved.block_samples == 0) resolved.block_samples = kBlockSamplesDefault;
  if (resolved.window_blocks == 0) resolved.window_blocks = kWindowBlocksDefault;
  if (resolved.deal_samples == 0)
    return invalid("block order needs deal_samples, the global batch that lanes are dealt by");
  if (resolved.lanes == 0) resolved.lanes = default_lanes(resolved.deal_samples);
  if (resolved.deal_samples % resolved.lanes != 0)
    return invalid(fmt::format("{} lanes do not divide the {} samples they are dealt by",
                               resolved.lanes, resolved.deal_samples));
  return resolved;
}

std::optional<BlockPlace> SampleOrder::block_at(std::uint64_t /*epoch*/,
                                                std::uint64_t /*position*/) const noexcept {
  return std::nullopt;
}

std::vector<SampleRange> SampleOrder::window_ranges(std::uint64_t /*epoch*/, std::uint64_t /*lane*/,
                                                    std::uint64_t /*window*/) const {
  return {};
}

Result<std::unique_ptr<SampleOrder>> make_order(const OrderOptions& options) {
  STOKER_ASSIGN(const OrderOptions resolved, resolve_order(options));
  std::unique_ptr<SampleOrder> order;
  switch (resolved.shuffle) {
    case Shuffle::off: order = std::make_unique<StoredOrder>(resolved.sample_count); break;
    case Shuffle::global:
      order = std::make_unique<GlobalOrder>(resolved.sample_count, resolved.seed);
      break;
    case Shuffle::block: order = internal::make_lane_order(resolved); break;
    case Shuffle::resampled:
      order = std::make_unique<ResampledOrder>(resolved.sample_count, resolved.seed);
      break;
  }
  return order;
}

}  // namespace stoker
