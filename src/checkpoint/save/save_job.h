#pragma once

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save/pending.h"
#include "checkpoint/staging/dedup.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/part_writer.h"
#include "checkpoint/staging/staging.h"
#include "io/engine/arena.h"

namespace stoker {

/// One save, passed from the caller to the writer.
///
/// Thread safety: members that are not atomic are set before the job is queued. Afterwards they are
/// only read, except that `arena` is given back. `drain` is started by the caller's thread before
/// the save counts as filled.
struct SaveJob {
  std::uint64_t number = 0;  ///< From SaveRounds; the same on every rank.
  SaveRequest request;
  std::vector<Digest128> keys;     ///< Of the tensors of the request (sharing.h).
  std::vector<Digest128> digests;  ///< Of the same, if they were counted.
  std::vector<SaveTensor> stored;  ///< Those that this rank stores.
  std::vector<std::size_t> held;   ///< Those that other ranks store: indexes into the request's.
  std::vector<TensorCopy> copies;  ///< Their digests.
  CheckpointLayout layout;         ///< Of `stored`.
  std::string staging_name;        ///< From CheckpointWriter::staging_name(): "owner-<token>/...".
  std::vector<std::uint32_t> places;  ///< The place of each rank; empty if all are in one.
  std::vector<std::string> hosts;     ///< Of each place; on rank 0 only.
  std::unique_ptr<Arena> arena;
  std::unique_ptr<Staging> staging;
  Deadline deadline = Deadline::max();
  Deadline device_deadline = Deadline::max();  ///< Of answers of devices, in time for the ranks.
  std::shared_ptr<PendingState> pending;
  /// For failures where making it could fail as well.
  const Status no_memory = Status::from_errno(ENOMEM, "copy a checkpoint", "");
  /// Returns what `call` returns, and no_memory for std::bad_alloc: the other ranks get a failure,
  /// and would wait for this one after an exception.
  template <typename Call>
  Status unless_no_memory(const Call& call) const {
    try {
      return call();
    } catch (const std::bad_alloc&) {
      return no_memory;
    }
  }
  Status failure;  ///< An error on this rank before writing, to be reported to the others.
  /// Disk space that the save needs on all ranks; on rank 0 only. Set before the job is queued.
  std::uint64_t new_bytes = 0;
  std::uint64_t own_bytes = 0;  ///< Likewise, on this rank.
  int room_rounds = 0;          ///< For which rank 0 has asked because a place lacked space.
  std::atomic<Reservation> reservation{Reservation::none};  // relaxed: of this rank
  std::atomic<std::uint64_t> written_bytes{0};              // relaxed: for progress reports
  std::atomic<SaveStage> stage{SaveStage::idle};
  /// Runs the rest of a copy (TensorCopier::begin_copy()). Last: it uses the other members.
  std::jthread drain;
};

/// What the writer's thread has learned from past saves, for the caller's thread to plan with.
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
  /// The last committed checkpoint; null before the first.
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
