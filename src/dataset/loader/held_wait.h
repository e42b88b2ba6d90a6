#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace stoker::internal {

/// Measures how long a caller has waited for memory that its own batches use. Only time inside
/// next() counts, summed over calls: a caller that polls does not wait in between. Does not read
/// the clock: the time is an argument.
///
/// Thread safety: none.
class HeldWait {
 public:
  enum class Verdict : std::uint8_t {
    wait,  ///< Wait until wake_at() at the latest.
    warn,  ///< The same, and the warning time was just reached; once per wait.
    fail,  ///< The limit was reached: give up. The count starts again.
  };

  HeldWait(nanoseconds warning, nanoseconds limit) : warning_(warning), limit_(limit) {}

  /// The caller waits because of held batches.
  Verdict waiting(Deadline now) {
    if (running_) waited_ += now - since_;
    running_ = true;
    since_ = now;
    if (waited_ >= limit_) {
      reset();
      return Verdict::fail;
    }
    if (waited_ < warning_ || warned_) return Verdict::wait;
    warned_ = true;
    return Verdict::warn;
  }
  /// When the verdict of waiting() changes next.
  Deadline wake_at() const {
    const nanoseconds next = warned_ ? limit_ : std::min(warning_, limit_);
    return deadline_after(next - waited_, since_);
  }
  /// The caller no longer waits, or waits for another reason.
  void pause(Deadline now) {
    if (running_) waited_ += now - since_;
    running_ = false;
  }
  /// The batch was handed over.
  void reset() {
    running_ = false;
    warned_ = false;
    waited_ = nanoseconds(0);
  }

 private:
  const nanoseconds warning_;
  const nanoseconds limit_;
  bool running_ = false;
  bool warned_ = false;
  Deadline since_{};
  nanoseconds waited_{0};
};

}  // namespace stoker::internal
