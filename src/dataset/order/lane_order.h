/// \file
/// Block order: neighboring samples are read together, and ranks read different blocks.
///
/// The samples form a ring that is cut, from a place that differs each epoch, into B = floor(N/S)
/// full blocks of S samples and a short one. C lanes get T = floor(B/C) full blocks each: lane l's
/// t-th block is blocks(t C + l). A lane is a run of T S samples in which each window of K blocks
/// is permuted as a whole. Positions are dealt to the lanes in deals of G0: of each deal, lane l
/// has the l-th part of g = G0/C positions, and gives the next g samples of its run.
///
/// So there are Q = floor(T S / g) deals. The samples outside the deals come last, permuted as a
/// whole: the last T S - Q g samples of each lane, the B - T C full blocks that no lane has, and
/// the short block. By the same rule, N < G0, N < S, or fewer blocks than lanes give a global
/// order.
#pragma once

#include <array>
#include <vector>

#include "dataset/order/divider.h"
#include "dataset/order/order_hash.h"
#include "dataset/order/single_order.h"

namespace stoker::internal {

/// Thread safety: as SampleOrder.
class LaneOrder final : public SingleOrder {
 public:
  explicit LaneOrder(const OrderOptions& resolved) noexcept;

  SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept override;
  void fill(std::uint64_t epoch, std::uint64_t position,
            std::span<SampleRef> out) const noexcept override;
  std::optional<LaneShape> lane_shape() const noexcept override;
  std::optional<BlockPlace> block_at(std::uint64_t epoch,
                                     std::uint64_t position) const noexcept override;
  std::vector<SampleRange> window_ranges(std::uint64_t epoch, std::uint64_t lane,
                                         std::uint64_t window) const override;

 protected:
  std::optional<std::uint64_t> position_of(std::uint64_t epoch,
                                           std::uint64_t sample) const noexcept override;

 private:
  class Epoch;
  struct Spot;  // a sample as block and offset, with its lane and window

  Spot locate(Epoch& epoch, std::uint64_t position) const noexcept;
  Spot locate_in_lane(Epoch& epoch, std::uint64_t lane, std::uint64_t index) const noexcept;
  /// Samples in a window of any lane; the last window may be shorter.
  std::uint64_t window_size(std::uint64_t window) const noexcept;
  std::uint64_t sample_at(const Epoch& epoch, const Spot& spot) const noexcept;
  std::array<SampleRange, 2> block_ranges(const Epoch& epoch, std::uint64_t block) const noexcept;

  // The letters are those of docs/formats/order.md.
  std::uint64_t n_;               // N: samples
  std::uint64_t block_samples_;   // S
  std::uint64_t lanes_;           // C
  std::uint64_t deal_samples_;    // G0
  std::uint64_t lane_deal_;       // g: one lane's part of each deal of G0
  std::uint64_t full_blocks_;     // B
  std::uint64_t lane_blocks_;     // T
  std::uint64_t window_blocks_;   // K, at most T
  std::uint64_t window_samples_;  // K S
  std::uint64_t lane_samples_;    // T S
  std::uint64_t lane_dealt_;      // Q g: a lane's samples in deals
  std::uint64_t lane_rest_;       // T S - Q g: a lane's other samples
  std::uint64_t lane_positions_;  // Q G0: positions in deals
  std::uint64_t rest_in_lanes_;   // C (T S - Q g)
  std::uint64_t rest_in_blocks_;  // (B - T C) S
  Divider by_deal_;
  Divider by_lane_deal_;
  Divider by_window_;
  Divider by_block_;

  OrderHash seeded_blocks_;
  OrderHash seeded_window_;
  OrderHash seeded_rest_;
  OrderHash seeded_rotation_;
};

}  // namespace stoker::internal
