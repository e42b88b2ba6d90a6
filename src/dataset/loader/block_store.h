/// \file
/// Keeps whole blocks of a block order in memory, read ahead with large reads.
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

/// Neighboring samples, read at once. The block owns their memory.
struct Block {
  Lease memory;
  std::uint64_t first = 0;
  std::vector<FetchedRecord> records;  ///< Records of samples first, first + 1, ...
};

/// Keeps the blocks of a rank's lanes. While the batches of one window are made, the blocks of the
/// next window are read, a few with each batch, so that no batch waits for all of them; finished
/// windows are dropped. The window in which a run starts is read during its first batches, if at
/// least half of it is still to come. Samples without a block (not read yet, or too little memory)
/// are read one by one: the batch is the same, so nothing ever waits for a block.
///
/// Thread safety: every method from any thread.
class BlockStore {
 public:
  /// Samples to read, and the window they belong to.
  struct Load {
    SampleRange range;
    std::uint64_t lane = 0;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
  };

  /// `order` must have lanes and outlive the store. Blocks take their memory from `pool` only.
  BlockStore(const SampleOrder& order, BufferPool pool, std::optional<std::uint64_t> end_epoch);

  /// Sets `out` to the block of each sample, or null.
  void find(std::span<const SampleRef> samples,
            std::vector<std::shared_ptr<const Block>>& out) const;

  /// Call it when a batch of these positions is started: drops finished windows, and sets `out` to
  /// the blocks to read meanwhile. Each block is returned once.
  void advance(std::uint64_t epoch, std::span<const std::uint64_t> positions,
               std::vector<Load>& out);

  /// Reads a block that advance() returned, if there is memory for it. Too little memory is not a
  /// failure, nor are records that cannot be read: those fail in their batch. `cancelled` if `stop`
  /// fires.
  Status load(const Load& load, RecordFetcher& fetcher, const std::stop_token& stop);

  std::size_t leased_bytes() const { return pool_.leased_bytes(); }
  std::size_t memory_bytes() const noexcept { return pool_.budget_bytes(); }
  std::uint64_t loaded_count() const noexcept { return loaded_.value(); }

 private:
  /// Ranges of a window, and how many of them advance() has returned.
  struct Reading {
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::vector<SampleRange> ranges = {};
    std::size_t said = 0;
  };
  /// The current window of a lane, and the reads for it.
  struct Lane {
    bool is_begun = false;
    std::uint64_t epoch = 0;
    std::uint64_t window = 0;
    std::uint64_t began = 0;  ///< Samples of the first window before the run's start.
    Reading first;            ///< The run's first window, if it is read.
    Reading next;
  };
  /// Consecutive samples of a lane in one batch.
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
  /// Number of loads to skip before trying again: samples in the page cache are as fast to read one
  /// by one, with one copy less.
  std::uint64_t rest_loads_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace stoker::internal
