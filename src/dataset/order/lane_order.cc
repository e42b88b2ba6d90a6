#include "dataset/order/lane_order.h"

#include <algorithm>

namespace stoker::internal {

/// The state of one epoch: its rotation and its keys. Made for one call, during which it caches
/// results that are likely to be needed again.
///
/// Thread safety: none.
class LaneOrder::Epoch {
 public:
  Epoch(const LaneOrder& order, std::uint64_t epoch) noexcept
      : rotation_(order.seeded_rotation_.with(epoch).value() % order.n_),
        seeded_window_(order.seeded_window_.with(epoch)),
        // A permutation needs at least one item; an empty one is never used.
        blocks_(std::max<std::uint64_t>(order.full_blocks_, 1),
                order.seeded_blocks_.with(epoch).key()),
        rest_(std::max<std::uint64_t>(order.n_ - order.lane_positions_, 1),
              order.seeded_rest_.with(epoch).key()) {}

  /// From now on caches the blocks of a short permutation, whose cycle walks are long.
  void remember() noexcept {
    if (blocks_.count() > kMemoBlocks) return;
    memo_.fill(kNotYet);
    remembers_ = true;
  }

  std::uint64_t rotation() const noexcept { return rotation_; }
  const Permutation& blocks() const noexcept { return blocks_; }
  const Permutation& rest() const noexcept { return rest_; }

  /// The permutation inside a window of `size` samples. Neighboring positions share it.
  const Permutation& window(std::uint64_t lane, std::uint64_t window, std::uint64_t size) noexcept {
    if (lane != lane_ || window != window_) {
      inside_ = Permutation(size, seeded_window_.with(lane).with(window).key());
      lane_ = lane;
      window_ = window;
    }
    return inside_;
  }

  std::uint64_t block(std::uint64_t index) noexcept {
    if (!remembers_) return blocks_(index);
    std::uint8_t& slot = memo_[index];
    if (slot == kNotYet) slot = static_cast<std::uint8_t>(blocks_(index));
    return slot;
  }

 private:
  static constexpr std::size_t kMemoBlocks = 128;
  static constexpr std::uint8_t kNotYet = 0xff;

  std::uint64_t rotation_;
  OrderHash seeded_window_;
  Permutation blocks_;
  Permutation rest_;
  std::uint64_t lane_ = BlockPlace::kNoLane;  // with window_: the window of inside_
  std::uint64_t window_ = 0;
  Permutation inside_{1, {}};
  bool remembers_ = false;
  std::array<std::uint8_t, kMemoBlocks> memo_;  // uninitialized until remember()
};

struct LaneOrder::Spot {
  std::uint64_t block = 0;   // along the ring; the short block is the last
  std::uint64_t offset = 0;  // in the block
  std::uint64_t lane = BlockPlace::kNoLane;
  std::uint64_t window = 0;
};

LaneOrder::LaneOrder(const OrderOptions& resolved) noexcept
    : SingleOrder(resolved.sample_count),
      n_(resolved.sample_count),
      block_samples_(resolved.block_samples),
      lanes_(resolved.lanes),
      deal_samples_(resolved.deal_samples),
      lane_deal_(resolved.deal_samples / resolved.lanes),
      full_blocks_(n_ / block_samples_),
      lane_blocks_(full_blocks_ / lanes_),
      // At most the length of the lane, so that the product below cannot overflow.
      window_blocks_(std::min(resolved.window_blocks, std::max<std::uint64_t>(lane_blocks_, 1))),
      window_samples_(window_blocks_ * block_samples_),
      lane_samples_(lane_blocks_ * block_samples_),
      lane_dealt_(lane_samples_ / lane_deal_ * lane_deal_),
      lane_rest_(lane_samples_ - lane_dealt_),
      lane_positions_(lane_dealt_ * lanes_),
      rest_in_lanes_(lane_rest_ * lanes_),
      rest_in_blocks_((full_blocks_ - lane_blocks_ * lanes_) * block_samples_),
      by_deal_(deal_samples_),
      by_lane_deal_(lane_deal_),
      by_window_(window_samples_),
      by_block_(block_samples_),
      seeded_blocks_(OrderHash(Purpose::blocks).with(resolved.seed)),
      seeded_window_(OrderHash(Purpose::window).with(resolved.seed)),
      seeded_rest_(OrderHash(Purpose::rest).with(resolved.seed)),
      seeded_rotation_(OrderHash(Purpose::rotation).with(resolved.seed)) {}

std::uint64_t LaneOrder::window_size(std::uint64_t window) const noexcept {
  return std::min(window_samples_, lane_samples_ - window * window_samples_);
}

LaneOrder::Spot LaneOrder::locate_in_lane(Epoch& epoch, std::uint64_t lane,
                                          std::uint64_t index) const noexcept {
  const auto [window, before] = by_window_(index);
  const std::uint64_t inside = epoch.window(lane, window, window_size(window))(before);
  const auto [block, offset] = by_block_(inside);
  return {.block = epoch.block((window * window_blocks_ + block) * lanes_ + lane),
          .offset = offset,
          .lane = lane,
          .window = window};
}

LaneOrder::Spot LaneOrder::locate(Epoch& epoch, std::uint64_t position) const noexcept {
  if (position < lane_positions_) {
    const auto [deal, slot] = by_deal_(position);
    const auto [lane, slot_in_lane] = by_lane_deal_(slot);
    return locate_in_lane(epoch, lane, deal * lane_deal_ + slot_in_lane);
  }
  std::uint64_t rest = epoch.rest()(position - lane_positions_);
  if (rest < rest_in_lanes_) {
    Spot spot = locate_in_lane(epoch, rest / lane_rest_, lane_dealt_ + rest % lane_rest_);
    spot.lane = BlockPlace::kNoLane;  // any rank may get it
    spot.window = 0;
    return spot;
  }
  rest -= rest_in_lanes_;
  if (rest < rest_in_blocks_) {
    const auto [block, offset] = by_block_(rest);
    return {.block = epoch.block(lane_blocks_ * lanes_ + block), .offset = offset};
  }
  return {.block = full_blocks_, .offset = rest - rest_in_blocks_};
}

std::uint64_t LaneOrder::sample_at(const Epoch& epoch, const Spot& spot) const noexcept {
  const std::uint64_t turned = spot.block * block_samples_ + spot.offset + epoch.rotation();
  return turned < n_ ? turned : turned - n_;
}

SampleRef LaneOrder::at(std::uint64_t epoch, std::uint64_t position) const noexcept {
  Epoch state(*this, epoch);
  return {.dataset = 0, .sample = sample_at(state, locate(state, wrapped(position)))};
}

void LaneOrder::fill(std::uint64_t epoch, std::uint64_t position,
                     std::span<SampleRef> out) const noexcept {
  Epoch state(*this, epoch);
  state.remember();
  position = wrapped(position);
  for (SampleRef& ref : out) {
    ref = {.dataset = 0, .sample = sample_at(state, locate(state, position))};
    if (++position == n_) position = 0;
  }
}

/// Inverts locate() and sample_at(), step by step.
std::optional<std::uint64_t> LaneOrder::position_of(std::uint64_t epoch,
                                                    std::uint64_t sample) const noexcept {
  Epoch state(*this, epoch);
  const std::uint64_t ring =
      sample >= state.rotation() ? sample - state.rotation() : sample + n_ - state.rotation();
  const std::uint64_t block = ring / block_samples_;
  const std::uint64_t offset = ring % block_samples_;
  if (block == full_blocks_)
    return lane_positions_ + state.rest().inverse(rest_in_lanes_ + rest_in_blocks_ + offset);
  const std::uint64_t index = state.blocks().inverse(block);
  const std::uint64_t dealt_blocks = lane_blocks_ * lanes_;
  if (index >= dealt_blocks) {
    const std::uint64_t rest = (index - dealt_blocks) * block_samples_ + offset;
    return lane_positions_ + state.rest().inverse(rest_in_lanes_ + rest);
  }
  const std::uint64_t lane = index % lanes_;
  const std::uint64_t block_in_lane = index / lanes_;
  const std::uint64_t window = block_in_lane / window_blocks_;
  const std::uint64_t inside = block_in_lane % window_blocks_ * block_samples_ + offset;
  const std::uint64_t in_lane =
      window * window_samples_ + state.window(lane, window, window_size(window)).inverse(inside);
  if (in_lane >= lane_dealt_)
    return lane_positions_ + state.rest().inverse(lane * lane_rest_ + (in_lane - lane_dealt_));
  return in_lane / lane_deal_ * deal_samples_ + lane * lane_deal_ + in_lane % lane_deal_;
}

std::array<SampleRange, 2> LaneOrder::block_ranges(const Epoch& epoch,
                                                   std::uint64_t block) const noexcept {
  const std::uint64_t begin = block * block_samples_;
  const std::uint64_t size = std::min(block_samples_, n_ - begin);
  const std::uint64_t first = sample_at(epoch, {.block = block});
  const std::uint64_t before_end = std::min(size, n_ - first);
  return {{{.first = first, .count = before_end}, {.first = 0, .count = size - before_end}}};
}

std::optional<LaneShape> LaneOrder::lane_shape() const noexcept {
  return LaneShape{.lanes = lanes_,
                   .blocks_per_lane = lane_blocks_,
                   .window_blocks = window_blocks_,
                   .block_samples = block_samples_,
                   .deal_samples = deal_samples_,
                   .lane_positions = lane_positions_};
}

std::optional<BlockPlace> LaneOrder::block_at(std::uint64_t epoch,
                                              std::uint64_t position) const noexcept {
  Epoch state(*this, epoch);
  const Spot spot = locate(state, wrapped(position));
  return BlockPlace{.lane = spot.lane,
                    .window = spot.window,
                    .block = spot.block,
                    .ranges = block_ranges(state, spot.block)};
}

std::vector<SampleRange> LaneOrder::window_ranges(std::uint64_t epoch, std::uint64_t lane,
                                                  std::uint64_t window) const {
  std::vector<SampleRange> ranges;
  if (lane >= lanes_ || lane_blocks_ == 0 || window > (lane_blocks_ - 1) / window_blocks_)
    return ranges;
  Epoch state(*this, epoch);
  const std::uint64_t first = window * window_blocks_;
  const std::uint64_t last = std::min(first + window_blocks_, lane_blocks_);
  for (std::uint64_t block = first; block < last; ++block)
    for (const SampleRange& range : block_ranges(state, state.block(block * lanes_ + lane)))
      if (range.count > 0) ranges.push_back(range);
  return ranges;
}

std::unique_ptr<SampleOrder> make_lane_order(const OrderOptions& options) {
  return std::make_unique<LaneOrder>(options);
}

}  // namespace stoker::internal
