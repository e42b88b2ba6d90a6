#pragma once

#include <cstddef>
#include <optional>
#include <stop_token>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"

namespace stoker {

/// A first-in, first-out queue of at most `capacity` items. Producers wait while it is full, which
/// propagates back-pressure up the pipeline.
///
/// Thread safety: every method may be called from any thread.
template <typename T>
class BoundedQueue {
 public:
  /// Allocates all memory; `capacity` must be at least 1.
  explicit BoundedQueue(std::size_t capacity) : ring_(capacity) {}

  std::size_t capacity() const noexcept { return ring_.size(); }
  std::size_t size() const {
    MutexLock lock(mutex_);
    return count_;
  }

  /// Returns false, and leaves `item` untouched, if the queue is full or closed.
  bool try_push(T&& item) {
    {
      MutexLock lock(mutex_);
      if (closed_ || count_ == ring_.size()) return false;
      put(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// Waits for room. Returns false if the queue was closed, a stop was requested or the deadline
  /// passed first.
  bool push(T item, std::stop_token stop = {}, Deadline deadline = Deadline::max()) {
    const std::stop_callback wake(stop, Wake{*this});
    {
      MutexLock lock(mutex_);
      while (!closed_ && count_ == ring_.size()) {
        if (stop.stop_requested() || !not_full_.wait_until(mutex_, deadline)) break;
      }
      if (closed_ || count_ == ring_.size()) return false;
      if (stop.stop_requested()) {
        not_full_.notify_one();  // passes on a wake-up that this thread may have consumed
        return false;
      }
      put(std::move(item));
    }
    not_empty_.notify_one();
    return true;
  }

  /// Waits for an item. Returns nullopt if a stop was requested, the deadline passed, or the queue
  /// is closed and drained: items pushed before close() are still returned.
  std::optional<T> pop(std::stop_token stop = {}, Deadline deadline = Deadline::max()) {
    const std::stop_callback wake(stop, Wake{*this});
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      while (!closed_ && count_ == 0) {
        if (stop.stop_requested() || !not_empty_.wait_until(mutex_, deadline)) break;
      }
      if (count_ == 0) return std::nullopt;
      if (stop.stop_requested()) {
        not_empty_.notify_one();  // as in push()
        return std::nullopt;
      }
      item.emplace(take());
    }
    not_full_.notify_one();
    return item;
  }

  /// Returns nullopt, without waiting, if the queue is empty.
  std::optional<T> try_pop() {
    std::optional<T> item;
    {
      MutexLock lock(mutex_);
      if (count_ == 0) return std::nullopt;
      item.emplace(take());
    }
    not_full_.notify_one();
    return item;
  }

  /// Refuses further items and wakes all waiting threads.
  void close() {
    {
      MutexLock lock(mutex_);
      closed_ = true;
    }
    not_empty_.notify_all();
    not_full_.notify_all();
  }

 private:
  /// Wakes the waiters when a stop is requested. It takes the lock once, so that a waiter cannot
  /// test the token, miss the wake-up, and then sleep.
  struct Wake {
    BoundedQueue& queue;
    void operator()() const {
      {
        MutexLock lock(queue.mutex_);
      }
      queue.not_empty_.notify_all();
      queue.not_full_.notify_all();
    }
  };

  void put(T&& item) STOKER_REQUIRES(mutex_) {
    ring_[(head_ + count_) % ring_.size()].emplace(std::move(item));
    ++count_;
  }
  T take() STOKER_REQUIRES(mutex_) {
    std::optional<T>& slot = ring_[head_];
    T item = std::move(*slot);
    slot.reset();
    head_ = (head_ + 1) % ring_.size();
    --count_;
    return item;
  }

  mutable Mutex mutex_;
  Condition not_empty_;
  Condition not_full_;
  std::vector<std::optional<T>> ring_;  // its size never changes; its items are guarded by mutex_
  std::size_t head_ STOKER_GUARDED_BY(mutex_) = 0;
  std::size_t count_ STOKER_GUARDED_BY(mutex_) = 0;
  bool closed_ STOKER_GUARDED_BY(mutex_) = false;
};

}  // namespace stoker
