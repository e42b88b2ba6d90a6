/// \file
/// The mapping from positions to samples: pure functions of (options, epoch, position), computed in
/// constant time and memory, so that any run can be resumed anywhere. docs/formats/order.md defines
/// each of them, and golden vectors test that they never change.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "stoker/order.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kBlockSamplesDefault = 1024;
inline constexpr std::uint64_t kWindowBlocksDefault = 16;
inline constexpr std::uint64_t kLanesMax = 64;

/// Returns the largest divisor of `deal_samples` up to kLanesMax; 1 for 0.
std::uint64_t default_lanes(std::uint64_t deal_samples) noexcept;

/// Returns the options with every default filled in, as a cursor stores them: the numbers of block
/// order are 0 in the other orders. `invalid_argument`: no samples, too many, an unknown shuffle, a
/// block order without `deal_samples`, or lanes that do not divide it.
Result<OrderOptions> resolve_order(const OrderOptions& options);

/// Consecutive samples in stored order.
struct SampleRange {
  std::uint64_t first = 0;
  std::uint64_t count = 0;

  bool operator==(const SampleRange&) const = default;
};

/// The block that a position of a block order belongs to. The fetch layer needs it to read whole
/// blocks.
struct BlockPlace {
  static constexpr std::uint64_t kNoLane = UINT64_MAX;

  /// kNoLane for positions after the lanes, which have the remaining samples, globally permuted.
  std::uint64_t lane = kNoLane;
  /// The lane's window that contains the position; 0 without a lane.
  std::uint64_t window = 0;
  /// The block's number along the ring of samples, which is cut differently each epoch.
  std::uint64_t block = 0;
  /// The block's samples. The second range is empty unless the block wraps at the dataset's end.
  std::array<SampleRange, 2> ranges;
};

/// The resolved numbers of a block order.
struct LaneShape {
  std::uint64_t lanes = 0;            ///< C
  std::uint64_t blocks_per_lane = 0;  ///< T
  std::uint64_t window_blocks = 0;    ///< K, at most T
  std::uint64_t block_samples = 0;    ///< S
  std::uint64_t deal_samples = 0;     ///< G0
  /// Positions below this one belong to lanes, the others to no lane. If this is a small share of
  /// the epoch, the blocks are too large for the dataset (fewer than C blocks give a global order).
  std::uint64_t lane_positions = 0;
};

/// Maps positions to samples. An epoch has epoch_samples() positions; unless the order is stored or
/// explicit, each epoch has its own order. Epochs and positions may be any number: a position
/// beyond the epoch is taken modulo epoch_samples(), which fills a wrapped batch.
///
/// Thread safety: immutable; every method from any thread.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;

  /// Positions in one epoch, at least 1.
  virtual std::uint64_t epoch_samples() const noexcept = 0;
  /// The number of datasets: SampleRef::dataset is below it.
  virtual std::uint64_t dataset_count() const noexcept = 0;

  /// The sample at `position`.
  virtual SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept = 0;
  /// Sets out[k] to at(epoch, position + k) for every k: cheaper than separate calls.
  virtual void fill(std::uint64_t epoch, std::uint64_t position,
                    std::span<SampleRef> out) const noexcept = 0;

  /// Returns the number of positions from `position` to the next use of the sample (0: at
  /// `position` itself), counting into later epochs as if none of their positions were dropped.
  /// Nothing if the order cannot compute it (Shuffle::resampled, lists of samples), or if it has no
  /// such sample.
  virtual std::optional<std::uint64_t> next_use(std::uint64_t epoch, std::uint64_t position,
                                                SampleRef sample) const noexcept = 0;

  /// For block order; nothing for other orders.
  virtual std::optional<LaneShape> lane_shape() const noexcept { return std::nullopt; }
  virtual std::optional<BlockPlace> block_at(std::uint64_t epoch,
                                             std::uint64_t position) const noexcept;
  /// Returns the samples of one window of a lane: its blocks in the order of the lane, each as one
  /// or two ranges. Empty if there is no such lane or window.
  virtual std::vector<SampleRange> window_ranges(std::uint64_t epoch, std::uint64_t lane,
                                                 std::uint64_t window) const;
};

/// Makes the order of one dataset. `invalid_argument` as for resolve_order().
Result<std::unique_ptr<SampleOrder>> make_order(const OrderOptions& options);

}  // namespace stoker
