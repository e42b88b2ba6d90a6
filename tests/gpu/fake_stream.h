#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace stoker::testing {

/// Something that happens once.
///
/// Thread safety: everything may be called from any thread.
class FakeSignal {
 public:
  void set() {
    {
      MutexLock lock(mutex_);
      is_set_ = true;
    }
    changed_.notify_all();
  }
  void wait() {
    MutexLock lock(mutex_);
    while (!is_set_) changed_.wait(mutex_);
  }
  bool is_set() {
    MutexLock lock(mutex_);
    return is_set_;
  }

 private:
  Mutex mutex_;
  Condition changed_;
  bool is_set_ STOKER_GUARDED_BY(mutex_) = false;
};

/// Runs what it is given, in order, on a thread of its own. The destructor runs the rest.
///
/// Thread safety: everything may be called from any thread.
class FakeStream {
 public:
  explicit FakeStream(int device) : device_(device) {}
  ~FakeStream() { enqueue({}); }
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  int device() const noexcept { return device_; }
  void enqueue(std::function<void()> work) {
    {
      MutexLock lock(mutex_);
      queue_.push_back(std::move(work));
      ++pending_;
    }
    changed_.notify_all();
  }
  bool is_idle() {
    MutexLock lock(mutex_);
    return pending_ == 0;
  }
  void synchronize() {
    MutexLock lock(mutex_);
    while (pending_ > 0) changed_.wait(mutex_);
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        MutexLock lock(mutex_);
        while (queue_.empty()) changed_.wait(mutex_);
        work = std::move(queue_.front());
        queue_.pop_front();
      }
      if (!work) return;
      work();
      {
        MutexLock lock(mutex_);
        --pending_;
      }
      changed_.notify_all();
    }
  }

  const int device_;
  Mutex mutex_;
  Condition changed_;
  std::deque<std::function<void()>> queue_ STOKER_GUARDED_BY(mutex_);
  std::size_t pending_ STOKER_GUARDED_BY(mutex_) = 0;
  std::jthread thread_{[this] { run(); }};
};

}  // namespace stoker::testing
