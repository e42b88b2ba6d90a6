/// \file
/// LoaderProgress: what the caller of a loader has received, and where its next iteration begins.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "dataset/order/batch_cut.h"
#include "stoker/cursor.h"

namespace stoker {

/// Counts epochs, positions and steps. Iterations have `epochs` epochs each and begin at multiples
/// of that, unless load() sets another position: a cursor alone determines where its iteration
/// ends. None goes beyond `total_epochs`. Each method takes the cut of the run, which may change
/// when a run is resumed.
///
/// python/stoker/_loader/progress.py counts in the same way, and has in addition what only
/// frameworks of Python need.
///
/// Thread safety: none.
class LoaderProgress {
 public:
  /// Nothing in `epochs`: one iteration has no end but that of all epochs.
  LoaderProgress(std::optional<std::uint64_t> epochs, std::optional<std::uint64_t> total_epochs)
      : numbered_(epochs), epochs_(epochs), total_(total_epochs) {
    if (total_) epochs_ = epochs_ ? std::min(*epochs_, *total_) : *total_;
    if (numbered_) numbered_ = epochs_;
  }

  struct Place {
    std::uint64_t epoch = 0;
    std::uint64_t position = 0;

    bool operator==(const Place&) const = default;
  };

  /// What was received of complete steps.
  const Place& at() const noexcept { return at_; }
  /// Micro-batches received of a step that is not complete; at() is where it begins.
  std::uint64_t amid() const noexcept { return amid_; }
  /// The place of the next batch.
  Place upcoming(const BatchCut& cut) const noexcept;
  /// Whether an iteration has begun and has batches left.
  bool is_running() const noexcept { return end_.has_value(); }

  /// Begins the iteration at upcoming(), or its rest. False if all epochs are done.
  bool begin(const BatchCut& cut) noexcept;
  /// Ends it; the next one begins with the epochs after it, or at upcoming() if it has no end of
  /// its own.
  void end() noexcept;
  /// Whether the batch received last was the last of its iteration.
  bool iteration_is_done(const BatchCut& cut) const noexcept;

  /// A batch was received: its cursor, its number in its step, and whether it is the last there.
  void receive(const Cursor& cursor, std::uint64_t micro_batch, bool is_last) noexcept;
  /// Goes to a saved position.
  void load(const Cursor& cursor) noexcept;
  /// Makes the iteration of this number the next one. False if nothing changes: the next batch is
  /// one of that iteration already.
  bool set_epoch(std::uint64_t number, const BatchCut& cut) noexcept;

  /// Whether the batch received last was the last of its epoch.
  bool epoch_is_done(const BatchCut& cut) const noexcept;
  /// The number of the step that the batch received last belongs to: of a run from the beginning,
  /// the number of steps received.
  std::uint64_t step(const BatchCut& cut) const noexcept;
  /// Counts steps from this number on, as if those received so far were as many.
  void count_from(std::uint64_t step, const BatchCut& cut) noexcept;

  /// Epochs of an iteration, at most `total_epochs`; nothing: it has no end.
  const std::optional<std::uint64_t>& epochs() const noexcept { return epochs_; }
  const std::optional<std::uint64_t>& total_epochs() const noexcept { return total_; }

 private:
  static constexpr std::uint64_t kNoEnd = UINT64_MAX;

  std::uint64_t end_of(std::uint64_t epoch) const noexcept;
  Place following(const BatchCut& cut) const noexcept;
  std::uint64_t steps_received(const BatchCut& cut) const noexcept;

  std::optional<std::uint64_t> numbered_;  // epochs of a numbered iteration
  std::optional<std::uint64_t> epochs_;
  std::optional<std::uint64_t> total_;
  Place at_;
  Place next_;                        // where the next iteration begins
  std::optional<std::uint64_t> end_;  // epoch after the running iteration
  bool is_fresh_ = true;              // whether nothing was received since a position was set
  std::uint64_t amid_ = 0;
  std::uint64_t counted_from_ = 0;  // the number of steps when counting began, and what they count
  std::uint64_t counted_as_ = 0;
};

}  // namespace stoker
