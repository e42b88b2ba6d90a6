#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "checkpoint/staging/stuck_writes.h"

namespace stoker {

/// The saves whose chunks are being filled, by number. The threads that fill them share it: they
/// may outlive the checkpointer, if a device does not answer.
///
/// Thread safety: every method may be called from any thread.
class Fills : public std::enable_shared_from_this<Fills> {
 public:
  void begin(std::uint64_t number) {
    MutexLock lock(mutex_);
    numbers_.push_back(number);
  }
  /// Afterwards the caller uses nothing of the save.
  void end(std::uint64_t number) noexcept {
    {
      MutexLock lock(mutex_);
      std::erase(numbers_, number);
    }
    ended_.notify_all();
  }
  bool is_over(std::uint64_t number) const {
    MutexLock lock(mutex_);
    return std::ranges::find(numbers_, number) == numbers_.end();
  }
  /// Returns is_over(), after waiting for it until `deadline`.
  bool await(std::uint64_t number, Deadline deadline) const {
    MutexLock lock(mutex_);
    const auto is_in = [&]() STOKER_REQUIRES(mutex_) {
      return std::ranges::find(numbers_, number) != numbers_.end();
    };
    while (is_in())
      if (!ended_.wait_until(mutex_, deadline)) return !is_in();
    return true;
  }

  /// Makes `stuck` keep a save until its chunks are filled.
  void keep(std::uint64_t number, std::shared_ptr<void> save, StuckWrite& stuck) const {
    stuck.filling = std::move(save);
    stuck.is_filled = [self = shared_from_this(), number] { return self->is_over(number); };
  }

 private:
  mutable Mutex mutex_;
  mutable Condition ended_;
  std::vector<std::uint64_t> numbers_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
