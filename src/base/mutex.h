#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#include "base/fork_guard.h"

#if defined(__clang__)
#define STOKER_TSA(x) __attribute__((x))
#else
#define STOKER_TSA(x)
#endif
#define STOKER_GUARDED_BY(mutex) STOKER_TSA(guarded_by(mutex))
#define STOKER_REQUIRES(...) STOKER_TSA(requires_capability(__VA_ARGS__))

namespace stoker {

/// A std::mutex with annotations for clang's thread-safety analysis.
///
/// Thread safety: every method from any thread.
class STOKER_TSA(capability("mutex")) Mutex {
 public:
  void lock() STOKER_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() STOKER_TSA(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Locks a Mutex for the duration of a scope.
class STOKER_TSA(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) STOKER_TSA(acquire_capability(mutex)) : mutex_(mutex) {
    mutex_.lock();
  }
  ~MutexLock() STOKER_TSA(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

/// A condition variable for a Mutex. Wake-ups may be spurious: wait in a loop that tests the
/// guarded state, which is also the only form that the thread-safety analysis can follow.
///
/// Thread safety: every method from any thread; the caller of a wait must hold the Mutex. May be
/// destroyed in a forked child while threads of the parent wait on it.
class Condition {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Condition() : condition_() {}
  /// Waits for threads that are leaving wait(), except in a forked child, which does not have them.
  ~Condition() {
    if (guard_.is_here()) condition_.~condition_variable();
  }
  Condition(const Condition&) = delete;
  Condition& operator=(const Condition&) = delete;

  void wait(Mutex& mutex) STOKER_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    lock.release();  // the caller's MutexLock still owns it
  }
  /// Returns false if `deadline` has passed. Deadline::max() waits without a limit.
  bool wait_until(Mutex& mutex, Deadline deadline) STOKER_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool in_time = deadline == Deadline::max()
                             ? (condition_.wait(lock), true)
                             : condition_.wait_until(lock, deadline) == std::cv_status::no_timeout;
    lock.release();
    return in_time;
  }
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

 private:
  ForkGuard guard_;
  union {
    std::condition_variable condition_;  // in a union, so that ~Condition() can skip its destructor
  };
};

}  // namespace stoker
