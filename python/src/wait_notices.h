#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/directory/wait_notice.h"

namespace stoker::python {

/// Passes messages about long waits in the core to Python's log. On a thread that Python called
/// from, they are logged at once; those of native threads, which never take the GIL, are kept until
/// take() is called.
///
/// Thread safety: every method may be called from any thread.
class WaitNotices {
 public:
  explicit WaitNotices(nanoseconds after) : after_(after) {}

  /// Returns the messages of native threads since the last call.
  std::vector<std::string> take() {
    const MutexLock lock(mutex_);
    return std::exchange(said_, {});
  }

  /// Returns the sink for the core. Keeps `notices` alive.
  static WaitSink sink(std::shared_ptr<WaitNotices> notices);

 private:
  void say(const std::string& text);

  const nanoseconds after_;
  Mutex mutex_;
  std::vector<std::string> said_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker::python
