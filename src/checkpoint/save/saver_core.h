#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_leader.h"
#include "checkpoint/save/save_messages.h"
#include "checkpoint/save/save_pieces.h"
#include "checkpoint/save/save_places.h"
#include "checkpoint/save/save_rounds.h"
#include "checkpoint/save/save_worker.h"
#include "checkpoint/save/sharing.h"
#include "checkpoint/staging/fills.h"
#include "checkpoint/staging/layout_planner.h"
#include "checkpoint/staging/staging_memory.h"
#include "checkpoint/staging/stuck_writes.h"
#include "io/engine/rate_limiter.h"
#include "io/files/timed_file_ops.h"

namespace stoker {

/// The queue between the caller and the writer's thread, and the rounds in which the ranks agree on
/// each save.
///
/// Thread safety: save() and close() from one thread at a time; the others from any. The destructor
/// closes.
class CheckpointSaver::Core {
 public:
  explicit Core(SaverOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Starts the writer's thread.
  Status start();
  /// Waits for the saves in flight, stops the writer's thread and releases the lock. The others may
  /// still be called, but not save().
  void close();
  /// Never destroys this object, which is `self`.
  void keep(std::shared_ptr<Core> self) { self_ = std::move(self); }
  Result<PendingSave> save(SaveRequest request);
  Status wait(Deadline deadline);
  /// Waits until no save is in flight and condemned checkpoints are removed. Returns false if the
  /// deadline passes first.
  bool await_idle(Deadline deadline);
  /// Returns the newest error that was not reported yet, neither here nor by its PendingSave, and
  /// clears all of them.
  Status take_error();
  SaveProgress progress() const;

 private:
  using Job = std::shared_ptr<SaveJob>;
  /// An error that was not reported yet.
  struct Failure {
    std::uint64_t number = 0;  ///< Number of the save.
    Status error = {};
    bool is_behind_commit = false;  ///< The save is committed.
    std::shared_ptr<const PendingState>
        pending;  ///< The PendingSave with this error; null if none.
  };

  // saver_agreement.cc:
  Status plan(SaveJob& job);
  Status divide(SaveJob& job) const;
  Result<Verdict> agree_in_time(SaveJob& job);
  Result<Verdict> agree_and_plan(SaveJob& job);
  Result<Verdict> agree(SaveJob& job, const BeginMessage& message);
  BeginMessage begin(const SaveJob& job, const Status& planned);
  Status introduce_place(SaveJob& job, BeginMessage& message);
  void yield_place();
  static Verdict refuse_room(SaveJob& job, const PlaceTable& table, Status full);
  Verdict decide(SaveJob& job, std::uint64_t number, std::span<const BeginMessage> messages);
  void settle(const Verdict& verdict, Deadline deadline);

  // saver_space.cc:
  std::uint64_t new_bytes(const CheckpointLayout& layout) const;
  SavesInFlight saves_in_flight(const BeginMessage& message) const;
  std::uint64_t unreserved_bytes(const BeginMessage& message,
                                 std::uint64_t SaveJob::* needed = &SaveJob::new_bytes) const
      STOKER_REQUIRES(mutex_);
  bool await_reservation(const BeginMessage& message, const SavesInFlight& seen, Deadline deadline);
  bool is_room_coming() const STOKER_REQUIRES(mutex_);
  void await_room(Deadline deadline);
  void await_own_room(Deadline deadline);

  // saver_filling.cc:
  Status count(SaveJob& job);
  Status hash_held(SaveJob& job);
  void await_late(const CopyRest& late);
  Result<PendingSave> enter(const Job& job);
  Status stage(const Job& job);
  void fill(SaveJob& job);
  static void drain(Fills& fills, SaveJob& job, CopyRest rest);

  void run(std::stop_token stop);
  Job next_job(const std::stop_token& stop);
  void finish(const Job& job, const EndMessage& end);
  void remove_condemned(const SaveJob& job);
  void note(Failure failure) STOKER_REQUIRES(mutex_);
  void forget_reported() STOKER_REQUIRES(mutex_);
  EndMessage work(SaveWorker& worker, const Job& job);

  const SaverOptions options_;
  TimedFileOps caller_ops_;  // limits the calls of save()
  TimedFileOps writer_ops_;  // limits those of the writer's thread
  Coordinator& coordinator_;
  RateLimiter limiter_;
  StagingMemory memory_;
  StuckWrites replaced_{memory_};  // what devices still use; of the caller's thread
  const std::shared_ptr<Fills> fills_ = std::make_shared<Fills>();
  SaveMemory learned_;
  LayoutPlanner plain_layouts_;  // used by the caller's thread, as the next one
  LayoutPlanner grouped_layouts_;
  std::unique_ptr<SaveLeader> leader_;  // on rank 0, and on all ranks if disks are private
  bool leads_place_ = false;            // the first of its place, and not rank 0
  SaveRounds rounds_;                   // used by the caller's thread

  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Job> queue_ STOKER_GUARDED_BY(mutex_);       // waiting for the writer
  std::vector<Job> in_flight_ STOKER_GUARDED_BY(mutex_);  // queue_, and the one being written
  bool is_held_ STOKER_GUARDED_BY(mutex_) = false;        // while true the writer takes no job
  bool is_removing_ STOKER_GUARDED_BY(mutex_) = false;    // removing condemned checkpoints
  Sharing sharing_ STOKER_GUARDED_BY(mutex_);
  std::deque<Failure> failures_ STOKER_GUARDED_BY(mutex_);     // oldest first
  std::uint64_t raised_number_ STOKER_GUARDED_BY(mutex_) = 0;  // errors up to it were reported
  bool is_closed_ = false;
  std::shared_ptr<Core> self_;
  std::jthread writer_;
};

}  // namespace stoker
