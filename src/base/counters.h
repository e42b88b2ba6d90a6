#pragma once

#include <atomic>
#include <cstdint>

namespace stoker {

/// A count with one writer. As cheap as a plain integer: a load, an add and a store, with no
/// locked instruction, so the hot path may keep as many as it likes.
///
/// Memory order is relaxed throughout. A count publishes nothing but itself: readers print it, and
/// no reader goes on to touch memory because of what it read. The atomic type is there so that
/// readers see a value that was once written, never a torn or cached-for-ever one. Load and store
/// need not be one step, because nobody else writes in between.
///
/// Thread safety: add() from one thread at a time, its owner; value() from any thread.
class Counter {
 public:
  void add(std::uint64_t n = 1) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + n, std::memory_order_relaxed);
  }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

/// A count with many writers. Each add() is a locked instruction, and under contention a cache line
/// that travels between cores: keep it off paths that run for every request. It has a line of its
/// own, so that it does not slow down its neighbours as well.
///
/// Memory order is relaxed for the same reason as in Counter. fetch_add makes the addition one
/// step, so that none is lost; that needs atomicity, not order.
///
/// Thread safety: every method from any thread.
class alignas(64) SharedCounter {
 public:
  void add(std::uint64_t n = 1) noexcept { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_{0};
};

}  // namespace stoker
