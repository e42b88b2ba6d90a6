#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"

namespace stoker::internal {

/// How long a caller has waited for memory that its own batches hold. Only the time inside of
/// next() counts, over as many calls as there are: a caller that looks in now and then has not
/// waited in between. Pure: the time comes from outside.
///
/// Thread safety: none.
class HeldWait {
 public:
  enum class Verdict : std::uint8_t {
    wait,  ///< Until wake_at() at the latest.
    warn,  ///< The same, and it has just been long enough to be worth a warning; once a wait.
    fail,  ///< Long enough to give up. The count begins anew.
  };

  HeldWait(nanoseconds warning, nanoseconds limit) : warning_(warning), limit_(limit) {}

  /// The caller waits, and held batches are the reason.
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
  /// The moment at which waiting() has news.
  Deadline wake_at() const {
    const nanoseconds next = warned_ ? limit_ : std::min(warning_, limit_);
    return deadline_after(next - waited_, since_);
  }
  /// The caller no longer waits, or for another reason.
  void pause(Deadline now) {
    if (running_) waited_ += now - since_;
    running_ = false;
  }
  /// The batch came.
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
