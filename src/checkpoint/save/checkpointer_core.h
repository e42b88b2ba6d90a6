#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/save/checkpointer.h"
#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_leader.h"
#include "checkpoint/save/save_messages.h"
#include "checkpoint/save/save_worker.h"
#include "checkpoint/staging/staging_memory.h"
#include "io/engine/rate_limiter.h"
#include "io/files/timed_file_ops.h"

namespace stoker {

/// The queue between the caller and the writer's thread, and the rounds by which ranks agree.
///
/// Thread safety: save() from one thread at a time; the others from any. The destructor waits for
/// what is in flight.
class Checkpointer::Core {
 public:
  explicit Core(CheckpointerOptions options);
  ~Core();
  Core(const Core&) = delete;
  Core& operator=(const Core&) = delete;

  /// Starts the writer's thread.
  Status start();
  Result<Pending> save(SaveRequest request);
  Status wait(Deadline deadline);
  /// Nothing is in flight, and what was condemned is removed. False when the deadline has passed
  /// first.
  bool await_idle(Deadline deadline);
  /// The newest error that nobody has been told yet, neither here nor by its Pending. All are then
  /// forgotten.
  Status take_error();
  CheckpointerProgress progress() const;

 private:
  using Job = std::shared_ptr<SaveJob>;
  /// An error, until somebody is told.
  struct Failure {
    std::uint64_t number = 0;  ///< Of the save.
    Status error = {};
    bool is_behind_commit = false;                ///< The save is committed.
    std::shared_ptr<const PendingState> pending;  ///< That has the error; null if none does.
  };

  Status plan(SaveJob& job) const;
  BeginMessage begin(const SaveJob& job, const Status& planned);
  Result<Verdict> agree(SaveJob& job, const BeginMessage& message);
  Result<Verdict> hear_all(SaveJob& job, const BeginMessage& message);
  SavesInFlight saves_in_flight(const BeginMessage& message) const;
  std::uint64_t unreserved_bytes(const BeginMessage& message) const STOKER_REQUIRES(mutex_);
  bool await_reservation(const BeginMessage& message, const SavesInFlight& seen, Deadline deadline);
  bool is_room_coming() const STOKER_REQUIRES(mutex_);
  void await_room(Deadline deadline);
  void settle(const Verdict& verdict);
  Status stage(const Job& job);
  Result<Pending> enter(const Job& job);
  std::uint64_t new_bytes(const CheckpointLayout& layout) const;

  void run(std::stop_token stop);
  Job next_job(const std::stop_token& stop);
  void await_filled(const SaveJob& job);
  void finish(const Job& job, const EndMessage& end);
  void remove_condemned(const SaveJob& job);
  void note(Failure failure) STOKER_REQUIRES(mutex_);
  void forget_told() STOKER_REQUIRES(mutex_);
  EndMessage work(SaveWorker& worker, const Job& job);

  const CheckpointerOptions options_;
  TimedFileOps writer_ops_;  // the writer's thread's
  Coordinator& coordinator_;
  RateLimiter limiter_;
  StagingMemory memory_;
  mutable SaveMemory learned_;
  std::unique_ptr<SaveLeader> leader_;  // rank 0's
  std::uint64_t number_ = 0;            // the caller's thread's

  mutable Mutex mutex_;
  Condition changed_;
  std::deque<Job> queue_ STOKER_GUARDED_BY(mutex_);            // waiting for the writer
  std::vector<Job> in_flight_ STOKER_GUARDED_BY(mutex_);       // those, and the one it has
  bool is_held_ STOKER_GUARDED_BY(mutex_) = false;             // the writer takes no job meanwhile
  std::uint64_t filling_ STOKER_GUARDED_BY(mutex_) = 0;        // number of the save being copied
  bool is_removing_ STOKER_GUARDED_BY(mutex_) = false;         // what retention has condemned
  std::deque<Failure> failures_ STOKER_GUARDED_BY(mutex_);     // oldest first
  std::uint64_t raised_number_ STOKER_GUARDED_BY(mutex_) = 0;  // errors up to it are told
  std::jthread writer_;
};

}  // namespace stoker
