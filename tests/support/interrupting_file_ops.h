#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include "base/mutex.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker::testing {

/// Does something else between two steps of a protocol: calls `body` at a crash point, the
/// `count`-th time that it is reached, on the thread that reaches it.
///
/// Thread safety: every method from any thread.
class InterruptingFileOps final : public ForwardingFileOps {
 public:
  InterruptingFileOps(FileOps& target, std::string point, int count, std::function<void()> body)
      : ForwardingFileOps(target),
        point_(std::move(point)),
        count_(count),
        body_(std::move(body)) {}

  void reached(std::string_view crash_point) override {
    ForwardingFileOps::reached(crash_point);
    if (crash_point != point_) return;
    {
      const MutexLock lock(mutex_);
      if (--count_ != 0) return;
    }
    body_();
  }

  bool has_fired() const {
    const MutexLock lock(mutex_);
    return count_ <= 0;
  }

 private:
  const std::string point_;
  mutable Mutex mutex_;
  int count_ STOKER_GUARDED_BY(mutex_);
  const std::function<void()> body_;
};

/// No file can be locked, as on some network filesystems: locks decide nothing then, and whoever
/// interrupts their holder does not wait for it.
class LocklessFileOps final : public ForwardingFileOps {
 public:
  explicit LocklessFileOps(FileOps& target) : ForwardingFileOps(target) {}
  Status try_lock(int /*fd*/, LockMode /*mode*/) override {
    return Status(Code::unsupported, "no locks here");
  }
};

}  // namespace stoker::testing
