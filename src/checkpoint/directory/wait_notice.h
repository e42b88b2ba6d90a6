#pragma once

#include <utility>

#include "base/clock.h"
#include "checkpoint/store/lock_options.h"

namespace stoker {

/// Tells why somebody waits, and again when it has taken twelve times as long: a wait that nobody
/// explains looks like a hang.
///
/// Thread safety: none.
class WaitNotice {
 public:
  explicit WaitNotice(WaitSink sink) : sink_(std::move(sink)), next_(deadline_after(sink_.after)) {}

  /// To be called at every look. `describe` makes the text, where it is wanted.
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
