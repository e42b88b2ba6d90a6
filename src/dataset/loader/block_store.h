/// \file
/// Whole blocks of a block order in memory, read ahead with large reads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <vector>

#include "base/counters.h"
#include "base/mutex.h"
#include "dataset/fetch/fetch_plan.h"
#include "dataset/fetch/record_fetch.h"
#include "dataset/order/order.h"
#include "io/engine/buffer_pool.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Neighbouring samples, read at once. Their memory lives as long as the block.
struct Block {
  Lease memory;
  std::uint64_t first = 0;
  std::vector<FetchedRecord> records;  ///< Of samples first, first + 1, ...
};

/// Keeps the blocks of a rank's lanes. While the batches of a window are made, the blocks of the
/// next one are read, a few with each batch, so that there is never a wait for all of them; a
/// window that is over goes. The window that a run begins in is made up for with its first batches,
/// if most of it is still to come. What is not here (until then, or because the memory is too
/// small) is read sample by sample: a batch is the same either way, so nothing ever waits for a
/// block.
///
/// Thread safety: every method from any thread.
class BlockStore {
 public:
  /// Samples to be read, and the window they are for.
  struct Load {
    SampleRange range;
    std::uint64_t lane = 0;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
  };

  /// `order` has lanes, and outlives it. Blocks take their memory from `pool` alone.
  BlockStore(const SampleOrder& order, BufferPool pool, std::optional<std::uint64_t> end_epoch);

  /// The block of each sample, or null.
  void find(std::span<const SampleRef> samples,
            std::vector<std::shared_ptr<const Block>>& out) const;

  /// A batch of these positions is under way: forgets windows that are over, and says which blocks
  /// are to be read meanwhile. Each is said once.
  void advance(std::uint64_t epoch, std::span<const std::uint64_t> positions,
               std::vector<Load>& out);

  /// Reads one of them, if there is memory for it. Not a failure if there is none, nor if records
  /// cannot be read: these fail when their batch comes. `cancelled` if `stop` fires.
  Status load(const Load& load, RecordFetcher& fetcher, const std::stop_token& stop);

  std::size_t leased_bytes() const { return pool_.leased_bytes(); }
  std::size_t memory_bytes() const noexcept { return pool_.budget_bytes(); }
  std::uint64_t loaded_count() const noexcept { return loaded_.value(); }

 private:
  /// Ranges of a window, and how many of them were said.
  struct Reading {
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::vector<SampleRange> ranges = {};
    std::size_t said = 0;
  };
  /// Where a lane is, and what is read for it.
  struct Lane {
    bool is_begun = false;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::uint64_t began = 0;  ///< Samples of the run's first window that came before it.
    Reading first;            ///< That window, if it is to be read.
    Reading next;
  };
  /// Positions of a batch that are neighbours in a lane.
  struct Stretch {
    std::uint64_t lane = 0;
    std::uint64_t begin = 0;
    std::uint64_t end = 0;
  };
  struct Entry {
    std::uint64_t lane = 0;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::shared_ptr<const Block> block;
  };
  using Dropped = std::vector<std::shared_ptr<const Block>>;

  Stretch place_of(std::uint64_t position) const noexcept;
  std::uint64_t window_samples(std::uint64_t window) const noexcept;
  void advance_stretch(std::uint64_t epoch, const Stretch& stretch, std::vector<Load>& out,
                       Dropped& dropped) STOKER_REQUIRES(mutex_);
  void enter_window(Lane& lane, std::uint64_t number, std::uint64_t epoch, std::uint64_t window,
                    Dropped& dropped) STOKER_REQUIRES(mutex_);
  static void say(Reading& reading, std::uint64_t lane, std::uint64_t due, std::vector<Load>& out);
  bool rests_because_warm();

  const SampleOrder& order_;
  const LaneShape shape_;
  const std::optional<std::uint64_t> end_epoch_;
  mutable BufferPool pool_;
  SharedCounter loaded_;
  mutable Mutex mutex_;
  std::vector<Lane> lanes_ STOKER_GUARDED_BY(mutex_);
  std::map<std::uint64_t, Entry> entries_ STOKER_GUARDED_BY(mutex_);  ///< By first sample.
  /// What the page cache holds is as fast sample by sample, and copied once less: loads to leave
  /// out before looking again.
  std::uint64_t rest_loads_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace stoker::internal
