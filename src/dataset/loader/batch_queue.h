/// \file
/// Passes batches from the loader's threads to its caller: in order, and bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "dataset/batch/batch_data.h"
#include "dataset/loader/held_wait.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Threads take batch numbers in order, lease memory in the same order, and put batches in any
/// order; the caller takes them in order.
///
/// Leasing in order prevents deadlock: when batch n waits for memory, every batch before it has its
/// memory and will be handed over, and no batch after it has any. So if n is also the batch that is
/// due, the caller's own batches use the memory, and take() reports that.
///
/// Thread safety: every method from any thread.
class BatchQueue {
 public:
  struct Options {
    std::size_t depth_max = 1;    ///< Maximum number of batches in progress or ready.
    std::size_t threads_max = 1;  ///< Number of workers.
    std::optional<std::uint64_t> batch_count = {};
    nanoseconds held_warning{0};
    nanoseconds held_limit{0};
  };
  explicit BatchQueue(const Options& options);

  // Workers:

  /// Returns the next number for worker `worker`. Waits while `depth` batches are in progress or
  /// ready, and while the worker is not among the first `threads`. Nothing if there are no more
  /// batches, or the run failed or was stopped.
  std::optional<std::uint64_t> take_number(std::size_t worker);
  /// Waits for the turn of batch `number` to lease memory. False if the run was stopped.
  bool begin_lease(std::uint64_t number);
  /// Batch `number`, whose turn it is, has to wait for memory.
  void waits_for_memory(std::uint64_t number);
  /// Batch `number` has its memory, or will not need any: the next batch may lease.
  void end_lease(std::uint64_t number);
  void put(std::uint64_t number, std::unique_ptr<BatchData> batch);
  /// Batch `number` cannot be made: take() fails when it is due.
  void put_failure(std::uint64_t number, Status status);
  /// No batch can be made any more: take() fails from now on.
  void fail(Status status);

  // The caller:

  struct Taken {
    enum class Kind : std::uint8_t { batch, end, timeout, memory_held, stopped, failed };
    Kind kind = Kind::end;
    std::unique_ptr<BatchData> batch = {};
    Status status = {};
    nanoseconds waited{0};
    Deadline now{};       ///< When the call returned.
    bool warned = false;  ///< Held batches delayed the call by Options::held_warning.
  };
  Taken take(Deadline deadline);

  /// Stops the queue for good: wakes all waiting threads, and later calls return at once.
  void stop() noexcept;

  // The tuner:

  void set_limits(std::size_t threads, std::size_t depth);
  std::size_t threads() const;
  std::size_t depth() const;

 private:
  struct Slot {
    std::unique_ptr<BatchData> batch;
    Status status;
    bool is_done = false;
  };
  bool may_take(std::size_t worker) const STOKER_REQUIRES(mutex_);
  bool is_finished() const STOKER_REQUIRES(mutex_);
  Slot& slot(std::uint64_t number) STOKER_REQUIRES(mutex_);
  /// Checks whether the caller waits for memory that its own batches use. True: give up.
  bool observe_held(Taken& out, Deadline now, Deadline& wake) STOKER_REQUIRES(mutex_);
  bool take_ready(Taken& out) STOKER_REQUIRES(mutex_);

  const std::optional<std::uint64_t> batch_count_;
  const std::size_t depth_max_;
  mutable Mutex mutex_;
  Condition workers_;  ///< Waiting for a number or a turn to lease.
  Condition parked_;   ///< Not among the first `threads`; not woken for every batch.
  Condition caller_;
  std::vector<Slot> slots_ STOKER_GUARDED_BY(mutex_);  ///< Empty after stop().
  std::size_t threads_ STOKER_GUARDED_BY(mutex_);
  std::size_t depth_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t next_number_ STOKER_GUARDED_BY(mutex_) = 0;  ///< Next to start.
  std::uint64_t next_lease_ STOKER_GUARDED_BY(mutex_) = 0;   ///< Next to lease.
  std::uint64_t next_taken_ STOKER_GUARDED_BY(mutex_) = 0;   ///< Next for the caller.
  std::optional<std::uint64_t> waits_for_memory_ STOKER_GUARDED_BY(mutex_);
  HeldWait held_ STOKER_GUARDED_BY(mutex_);
  Status failure_ STOKER_GUARDED_BY(mutex_);
  bool stopped_ STOKER_GUARDED_BY(mutex_) = false;
};

}  // namespace stoker::internal
