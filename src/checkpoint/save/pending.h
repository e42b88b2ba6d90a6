#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "stoker/save.h"
#include "stoker/status.h"

namespace stoker {

/// The state of a save, shared by the writer and the waiting threads.
///
/// Thread safety: every method may be called from any thread.
class PendingState {
 public:
  explicit PendingState(std::uint64_t step) : step_(step) {}

  void set_staged();
  /// Nothing reads the caller's memory any more. Follows every save that has begun, or was skipped.
  void set_released();
  /// Sets the result; called once. A committed save may have an error `status`, if something failed
  /// after the checkpoint became durable.
  void finish(SaveOutcome outcome, Status status, std::uint64_t generation = 0,
              std::string line = {});

  std::uint64_t step() const noexcept { return step_; }
  bool is_staged() const;
  bool is_released() const;
  std::optional<SaveOutcome> outcome() const;
  std::uint64_t generation() const;
  std::string line() const;
  Status wait(nanoseconds timeout) const;
  void set_reported() const noexcept { is_reported_.store(true, std::memory_order_relaxed); }
  bool is_reported() const noexcept { return is_reported_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t step_;
  const ForkGuard guard_;
  mutable std::atomic<bool> is_reported_ = false;  // relaxed: it publishes no other data
  mutable Mutex mutex_;
  mutable Condition finished_;
  bool is_staged_ STOKER_GUARDED_BY(mutex_) = false;
  bool is_released_ STOKER_GUARDED_BY(mutex_) = false;
  std::optional<SaveOutcome> outcome_ STOKER_GUARDED_BY(mutex_);
  Status status_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t generation_ STOKER_GUARDED_BY(mutex_) = 0;
  std::string line_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
