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

/// A std::mutex that clang's thread-safety analysis can see.
///
/// Thread safety: it is what provides it.
class STOKER_TSA(capability("mutex")) Mutex {
 public:
  void lock() STOKER_TSA(acquire_capability()) { mutex_.lock(); }
  void unlock() STOKER_TSA(release_capability()) { mutex_.unlock(); }

 private:
  friend class Condition;
  std::mutex mutex_;
};

/// Holds a Mutex for the length of a scope.
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

/// What a thread that holds a Mutex waits on. Wake-ups may be spurious: wait in a loop that tests
/// the guarded state, which is also the only form the thread-safety analysis can follow.
///
/// Thread safety: every method from any thread; waiting needs the Mutex held. May be destroyed in a
/// forked child, whose parent's threads may be waiting on it.
class Condition {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  Condition() : condition_() {}
  /// Waits for those who are leaving wait(). In a child they never will.
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
  /// False when `deadline` has passed.
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
    std::condition_variable condition_;  // a union leaves its end to us
  };
};

}  // namespace stoker
