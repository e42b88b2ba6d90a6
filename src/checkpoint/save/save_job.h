#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "checkpoint/save/checkpointer.h"
#include "checkpoint/save/pending.h"
#include "checkpoint/staging/dedup.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/part_writer.h"
#include "checkpoint/staging/staging.h"
#include "io/engine/arena.h"

namespace stoker {

/// One save on its way from the caller to the writer.
///
/// Thread safety: what is not atomic is written before the job is queued, and read after.
struct SaveJob {
  std::uint64_t number = 0;  ///< Counts the calls of save(): the same on every rank.
  SaveRequest request;
  CheckpointLayout layout;
  std::string staging_name;  ///< Of this attempt, in the checkpoint directory: "owner-<token>/...".
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Staging> staging;
  Deadline deadline = Deadline::max();
  std::shared_ptr<PendingState> pending;
  Status failure;  ///< It has failed on this rank before it could be written; others must know.
  /// What it takes of the disk, on all ranks; rank 0's. Written before the job is queued.
  std::uint64_t new_bytes = 0;
  std::atomic<Reservation> reservation{Reservation::none};  // relaxed: on this rank
  std::atomic<std::uint64_t> written_bytes{0};              // relaxed: a figure for people
  std::atomic<SaveStage> stage{SaveStage::idle};
};

/// What the caller's thread plans with and the writer's thread learns.
///
/// Thread safety: every method may be called from any thread.
class SaveMemory {
 public:
  explicit SaveMemory(const GroupPlanner::Limits& limits) : planner_(limits) {}

  std::vector<std::uint32_t> plan(std::span<const SaveTensor> tensors,
                                  const CheckpointLayout& plain, bool may_look) {
    MutexLock lock(mutex_);
    return planner_.plan(tensors, plain, may_look);
  }
  void record(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              std::span<const TensorScan> scans) {
    MutexLock lock(mutex_);
    planner_.record(layout, tensors, scans);
  }
  /// The last checkpoint that was committed; null before the first.
  std::shared_ptr<const LinkParent> parent() const {
    MutexLock lock(mutex_);
    return parent_;
  }
  void set_parent(std::shared_ptr<const LinkParent> parent) {
    MutexLock lock(mutex_);
    parent_ = std::move(parent);
  }

 private:
  mutable Mutex mutex_;
  GroupPlanner planner_ STOKER_GUARDED_BY(mutex_);
  std::shared_ptr<const LinkParent> parent_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
