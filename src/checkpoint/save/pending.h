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
  committed,  ///< It is durable.
  skipped,    ///< The writer was late, and the policy is to skip.
  replaced,   ///< A later save took its place before it was written.
  failed,     ///< There is no such checkpoint.
  unknown,    ///< It may be there or not: the last step, or rank 0's answer, was lost.
};

std::string_view outcome_name(SaveOutcome outcome) noexcept;

/// What the writer and those who wait for it share.
///
/// Thread safety: every method may be called from any thread.
class PendingState {
 public:
  explicit PendingState(std::uint64_t step) : step_(step) {}

  void set_staged();
  /// Once. `status` is an error unless all went well; a committed checkpoint may have one, if
  /// something went wrong after it had become durable.
  void finish(SaveOutcome outcome, Status status, std::uint64_t generation = 0,
              std::string line = {});

  std::uint64_t step() const noexcept { return step_; }
  bool is_staged() const;
  std::optional<SaveOutcome> outcome() const;
  std::uint64_t generation() const;
  std::string line() const;
  Status wait(nanoseconds timeout) const;
  void set_told() const noexcept { is_told_.store(true, std::memory_order_relaxed); }
  bool is_told() const noexcept { return is_told_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t step_;
  const ForkGuard guard_;
  mutable std::atomic<bool> is_told_ = false;  // a flag alone: nothing else is read by it
  mutable Mutex mutex_;
  mutable Condition finished_;
  bool is_staged_ STOKER_GUARDED_BY(mutex_) = false;
  std::optional<SaveOutcome> outcome_ STOKER_GUARDED_BY(mutex_);
  Status status_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t generation_ STOKER_GUARDED_BY(mutex_) = 0;
  std::string line_ STOKER_GUARDED_BY(mutex_);
};

/// A save that is under way, or was. Copies are the same save; it may outlive its checkpointer.
///
/// Thread safety: every method may be called from any thread.
class Pending {
 public:
  explicit Pending(std::shared_ptr<const PendingState> state) : state_(std::move(state)) {}

  std::uint64_t step() const noexcept { return state_->step(); }
  /// The caller's memory has been copied and may change.
  bool is_staged() const { return state_->is_staged(); }
  bool is_done() const { return state_->outcome().has_value(); }
  /// It survives a power cut.
  bool is_durable() const { return state_->outcome() == SaveOutcome::committed; }
  std::optional<SaveOutcome> outcome() const { return state_->outcome(); }
  /// Of the committed checkpoint; 0 before.
  std::uint64_t generation() const { return state_->generation(); }
  std::string line() const { return state_->line(); }

  /// Waits until it is done and returns its error, as often as it is asked. `unavailable` when
  /// `timeout` has passed first; `unsupported` in a forked child, where nobody works on it.
  Status wait(nanoseconds timeout = kForever) const { return state_->wait(timeout); }
  /// The caller has its error now: its checkpointer does not raise it again.
  void set_told() const noexcept { state_->set_told(); }

 private:
  std::shared_ptr<const PendingState> state_;
};

}  // namespace stoker
