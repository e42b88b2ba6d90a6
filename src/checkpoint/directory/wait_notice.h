#pragma once

#include <utility>

#include "base/clock.h"
#include "checkpoint/store/lock_options.h"

namespace stoker {

/// Reports the reason for a wait, at intervals that grow by a factor of twelve. Without it a long
/// wait looks like a hang.
///
/// Thread safety: none.
class WaitNotice {
 public:
  explicit WaitNotice(WaitSink sink) : sink_(std::move(sink)), next_(deadline_after(sink_.after)) {}

  /// Call it at every poll. `describe` returns the text; it is called only when a report is due.
  template <typename Describe>
  void waiting(Describe&& describe) {
    if (!sink_.tell || Clock::now() < next_) return;
    constexpr int kLater = 12;
    sink_.after *= kLater;
    next_ = deadline_after(sink_.after);
    sink_.tell(describe());
  }

 private:
  WaitSink sink_;
  Deadline next_;
};

}  // namespace stoker
