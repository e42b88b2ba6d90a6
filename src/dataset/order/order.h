/// \file
/// Which sample comes at which position: pure functions of (options, epoch, position), computed in
/// constant time and memory, so that any run can be resumed anywhere. docs/formats/order.md defines
/// each of them, and golden vectors hold the code to it for ever.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "dataset/order/sample_ref.h"
#include "stoker/status.h"

namespace stoker {

/// The numbers are part of the cursor's encoding: append only.
enum class Shuffle : std::uint8_t {
  off = 0,        ///< Stored order.
  global = 1,     ///< A uniform permutation of all samples, another one each epoch.
  block = 2,      ///< Blocks of neighbours in lanes, shuffled in windows: reads of whole blocks.
  resampled = 3,  ///< Drawn independently, with replacement.
};

/// "off", "global", "block", "resampled".
std::string_view shuffle_name(Shuffle shuffle) noexcept;
/// `invalid_argument` lists the names there are.
Result<Shuffle> parse_shuffle(std::string_view name);

/// What an order is made from. Everything after `sample_count` is for Shuffle::block.
struct OrderOptions {
  Shuffle shuffle = Shuffle::global;
  std::uint64_t seed = 0;
  std::uint64_t sample_count = 0;  ///< 1 to 2^62.
  /// S: samples in a block. 0 takes kBlockSamplesDefault; where the data is known, as many as make
  /// 8 to 16 MiB (loader_order.h).
  std::uint64_t block_samples = 0;
  std::uint64_t window_blocks = 0;  ///< K: blocks mixed with each other. 0: kWindowBlocksDefault.
  std::uint64_t lanes = 0;          ///< C: divides `deal_samples`. 0: default_lanes().
  /// G0: the global batch at which the lanes were dealt. The cursor keeps it, so that a later
  /// change of the global batch cuts the same line of positions into other pieces.
  std::uint64_t deal_samples = 0;

  bool operator==(const OrderOptions&) const = default;
};

inline constexpr std::uint64_t kBlockSamplesDefault = 1024;
inline constexpr std::uint64_t kWindowBlocksDefault = 16;
inline constexpr std::uint64_t kLanesMax = 64;

/// The greatest divisor of `deal_samples` up to kLanesMax; 1 for 0.
std::uint64_t default_lanes(std::uint64_t deal_samples) noexcept;

/// The options with every default put in, as a cursor keeps them: what block order does not need is
/// 0 in the others. `invalid_argument` says which number is wrong: no samples, too many, a
/// block order without `deal_samples`, lanes that do not divide it.
Result<OrderOptions> resolve_order(const OrderOptions& options);

/// Where a position of a block order comes from. What the fetch layer needs to read whole blocks,
/// and what shows that ranks read different ones.
struct BlockPlace {
  static constexpr std::uint64_t kNoLane = UINT64_MAX;

  /// kNoLane for positions after the lanes: what was left over, globally permuted.
  std::uint64_t lane = kNoLane;
  /// The lane's window that the position lies in; 0 without a lane.
  std::uint64_t window = 0;
  /// The block's number along the ring of samples, which is another each epoch.
  std::uint64_t block = 0;
  /// The block's samples. The second range is empty unless the block goes round the dataset's end.
  std::array<SampleRange, 2> ranges;
};

/// The figures of a block order, resolved.
struct LaneShape {
  std::uint64_t lanes = 0;            ///< C
  std::uint64_t blocks_per_lane = 0;  ///< T
  std::uint64_t window_blocks = 0;    ///< K, at most T
  std::uint64_t block_samples = 0;    ///< S
  std::uint64_t deal_samples = 0;     ///< G0
  /// Positions below this one belong to lanes, the others to no lane: a small share says that the
  /// blocks are too large for the dataset (below C blocks there is nothing but a global order).
  std::uint64_t lane_positions = 0;
};

/// Position -> sample. An epoch is a line of epoch_samples() positions; every epoch has its own
/// order. Epochs and positions may be any number: a position beyond the epoch counts on from its
/// start (position modulo epoch_samples()), which is what fills a wrapped batch.
///
/// Thread safety: immutable; every method from any thread.
class SampleOrder {
 public:
  virtual ~SampleOrder() = default;

  /// Positions in one epoch, at least 1.
  virtual std::uint64_t epoch_samples() const noexcept = 0;
  /// How many datasets `SampleRef::dataset` chooses from.
  virtual std::uint64_t dataset_count() const noexcept = 0;

  /// The sample at `position`.
  virtual SampleRef at(std::uint64_t epoch, std::uint64_t position) const noexcept = 0;
  /// at(epoch, position + k) for every k of `out`, in one call: cheaper than one by one.
  virtual void fill(std::uint64_t epoch, std::uint64_t position,
                    std::span<SampleRef> out) const noexcept = 0;

  /// How many positions after `position` the sample is used next (0: at `position` itself),
  /// counting on into later epochs as if none of their positions were dropped. Nothing if that
  /// cannot be computed (Shuffle::resampled), or for a sample that does not exist.
  virtual std::optional<std::uint64_t> next_use(std::uint64_t epoch, std::uint64_t position,
                                                SampleRef sample) const noexcept = 0;

  /// For block order; nothing for the others.
  virtual std::optional<LaneShape> lane_shape() const noexcept { return std::nullopt; }
  virtual std::optional<BlockPlace> block_at(std::uint64_t epoch,
                                             std::uint64_t position) const noexcept;
  /// The samples of one window of a lane: its blocks in the order of the lane, each one range or
  /// two. Empty if there is no such lane or window.
  virtual std::vector<SampleRange> window_ranges(std::uint64_t epoch, std::uint64_t lane,
                                                 std::uint64_t window) const;
};

/// The order of one dataset. `invalid_argument` as resolve_order() says.
Result<std::unique_ptr<SampleOrder>> make_order(const OrderOptions& options);

}  // namespace stoker
