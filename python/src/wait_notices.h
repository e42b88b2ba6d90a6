#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/directory/wait_notice.h"

namespace stoker::python {

/// Brings what waits of the core have to say to Python's log. On a thread that Python has called
/// from it is logged at once; what our own threads say, which never take the GIL, is kept until
/// Python asks.
///
/// Thread safety: every method may be called from any thread.
class WaitNotices {
 public:
  explicit WaitNotices(nanoseconds after) : after_(after) {}

  /// What was said on our own threads since the last call.
  std::vector<std::string> take() {
    const MutexLock lock(mutex_);
    return std::exchange(said_, {});
  }

  /// For the core. Keeps `notices` alive.
  static WaitSink sink(std::shared_ptr<WaitNotices> notices);

 private:
  void say(const std::string& text);

  const nanoseconds after_;
  Mutex mutex_;
  std::vector<std::string> said_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker::python
