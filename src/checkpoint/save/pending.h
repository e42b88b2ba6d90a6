#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "stoker/status.h"

namespace stoker {

/// How a save ended.
enum class SaveOutcome : std::uint8_t {
  committed,  ///< The checkpoint is durable.
  skipped,    ///< The writer was late, and the policy is LatePolicy::skip.
  replaced,   ///< A later save replaced it before it was written.
  failed,     ///< The checkpoint does not exist.
  unknown,    ///< The checkpoint may exist: the result of the commit, or rank 0's answer, was lost.
};

std::string_view outcome_name(SaveOutcome outcome) noexcept;

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

/// A save in progress or finished. Copies refer to the same save. It may outlive its checkpointer.
///
/// Thread safety: every method may be called from any thread.
class Pending {
 public:
  explicit Pending(std::shared_ptr<const PendingState> state) : state_(std::move(state)) {}

  std::uint64_t step() const noexcept { return state_->step(); }
  /// True once the caller's tensors have been copied and may change.
  bool is_staged() const { return state_->is_staged(); }
  /// True once neither the caller's tensors nor memory lent for a snapshot are read any more. Later
  /// than is_staged() if a snapshot was taken, and later than is_done() if the save has failed
  /// because the device does not answer: memory on a device must not be freed before.
  bool is_released() const { return state_->is_released(); }
  bool is_done() const { return state_->outcome().has_value(); }
  /// True once the checkpoint survives a power cut.
  bool is_durable() const { return state_->outcome() == SaveOutcome::committed; }
  std::optional<SaveOutcome> outcome() const { return state_->outcome(); }
  /// Generation of the committed checkpoint; 0 before the commit.
  std::uint64_t generation() const { return state_->generation(); }
  std::string line() const { return state_->line(); }

  /// Waits for the save and returns its status; may be called repeatedly. `unavailable` if
  /// `timeout` passes first; `unsupported` in a forked child, where no writer runs.
  Status wait(nanoseconds timeout = kForever) const { return state_->wait(timeout); }
  /// Marks the error as reported, so that the checkpointer does not return it again.
  void set_reported() const noexcept { state_->set_reported(); }

 private:
  std::shared_ptr<const PendingState> state_;
};

}  // namespace stoker
