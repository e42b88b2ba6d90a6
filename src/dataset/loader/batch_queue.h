/// \file
/// How batches get from the loader's threads to its caller: in order, and bounded.
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

/// Threads take the numbers of batches in order, lease memory in the same order, and put batches in
/// whatever order they are done; the caller takes them in order.
///
/// Memory in order is what makes a bounded loader free of deadlock: when batch n waits for memory,
/// every batch before it has been leased its own and will be handed over, and none after it has
/// any. So if n is also the one that is due, the memory is the caller's, who is told so.
///
/// Thread safety: every method from any thread.
class BatchQueue {
 public:
  struct Options {
    std::size_t depth_max = 1;    ///< Batches under way or ready, at most ever.
    std::size_t threads_max = 1;  ///< Workers that will ask.
    std::optional<std::uint64_t> batch_count = {};
    nanoseconds held_warning{0};
    nanoseconds held_limit{0};
  };
  explicit BatchQueue(const Options& options);

  // Workers:

  /// The next number for worker `worker`. Waits while `depth` batches are under way or ready, and
  /// while the worker is not among the first `threads`. Nothing when there are no more.
  std::optional<std::uint64_t> take_number(std::size_t worker);
  /// Waits for its turn to lease memory. False if the run was stopped.
  bool begin_lease(std::uint64_t number);
  /// It has to wait for memory.
  void waits_for_memory(std::uint64_t number);
  /// It has its memory, or will never want any.
  void end_lease(std::uint64_t number);
  void put(std::uint64_t number, std::unique_ptr<BatchData> batch);
  /// Batch `number` cannot be made. What was leased in order stays in order.
  void put_failure(std::uint64_t number, Status status);
  /// Nothing can: the next batch due fails.
  void fail(Status status);

  // The caller:

  struct Taken {
    enum class Kind : std::uint8_t { batch, end, timeout, memory_held, stopped, failed };
    Kind kind = Kind::end;
    std::unique_ptr<BatchData> batch = {};
    Status status = {};
    nanoseconds waited{0};
    Deadline now{};       ///< When the call returned.
    bool warned = false;  ///< Held batches made it wait for long.
  };
  Taken take(Deadline deadline);

  /// For good: everybody who waits, and who asks later, is told.
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
  /// Looks whether a caller who has to wait waits for its own batches. True: give up.
  bool observe_held(Taken& out, Deadline now, Deadline& wake) STOKER_REQUIRES(mutex_);
  bool take_ready(Taken& out) STOKER_REQUIRES(mutex_);

  const std::optional<std::uint64_t> batch_count_;
  const std::size_t depth_max_;
  mutable Mutex mutex_;
  Condition workers_;  ///< For numbers, and for turns to lease.
  Condition parked_;   ///< For being among the first `threads`; not woken for every batch.
  Condition caller_;
  std::vector<Slot> slots_ STOKER_GUARDED_BY(mutex_);  ///< Empty once it is stopped.
  std::size_t threads_ STOKER_GUARDED_BY(mutex_);
  std::size_t depth_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t next_number_ STOKER_GUARDED_BY(mutex_) = 0;  ///< To be begun.
  std::uint64_t next_lease_ STOKER_GUARDED_BY(mutex_) = 0;   ///< Whose turn it is.
  std::uint64_t next_taken_ STOKER_GUARDED_BY(mutex_) = 0;   ///< Due to the caller.
  std::optional<std::uint64_t> waits_for_memory_ STOKER_GUARDED_BY(mutex_);
  HeldWait held_ STOKER_GUARDED_BY(mutex_);
  Status failure_ STOKER_GUARDED_BY(mutex_);
  bool stopped_ STOKER_GUARDED_BY(mutex_) = false;
};

}  // namespace stoker::internal
