#pragma once

#include <atomic>
#include <cstdint>

namespace stoker {

/// A count with one writer. As cheap as a plain integer: a load, an add and a store, with no locked
/// instruction, so hot paths can use any number of them.
///
/// Memory order is relaxed throughout. A count publishes nothing but itself: readers print it, and
/// no reader accesses other memory because of it. The atomic type ensures that readers see a value
/// that was written, never a torn one, and that the compiler does not keep it in a register. Load
/// and store need not be one step, because there is no other writer.
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

/// A count with many writers. Each add() is a locked instruction, and under contention moves a
/// cache line between cores: do not use it on paths that run for every request. It occupies a whole
/// cache line, so that it does not slow down its neighbors.
///
/// Memory order is relaxed for the same reason as in Counter. fetch_add makes the addition one
/// step, so that no addition is lost; that needs atomicity, not order.
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
