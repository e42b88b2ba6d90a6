#pragma once

#include <cstdint>
#include <stop_token>

#include "base/clock.h"
#include "base/mutex.h"
#include "stoker/status.h"

namespace stoker {

/// A token bucket of bytes: at most `burst_bytes` at once, `rate_bytes_per_s` in the long run.
///
/// A request is granted at once and put in the bucket's debt; its caller then waits until the debt
/// is paid. So requests larger than the burst pass, callers are served in the order they came, and
/// no waiting happens under the lock.
///
/// Thread safety: every method may be called from any thread.
class RateLimiter {
 public:
  /// A rate of 0 means unlimited. The bucket starts full.
  RateLimiter(std::uint64_t rate_bytes_per_s, std::uint64_t burst_bytes,
              Deadline now = Clock::now());

  /// Books `bytes` and returns how long the caller must wait before it moves them.
  nanoseconds reserve(std::uint64_t bytes, Deadline now = Clock::now());

  /// reserve(), and the wait. `cancelled` if `stop` fires first: the bytes stay booked.
  Status acquire(std::uint64_t bytes, const std::stop_token& stop = {});

  /// Changes the rate for what is booked from now on; who already waits keeps its moment.
  void set_rate(std::uint64_t rate_bytes_per_s, Deadline now = Clock::now());
  std::uint64_t rate_bytes_per_s() const;

 private:
  void refill(Deadline now) STOKER_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::uint64_t rate_ STOKER_GUARDED_BY(mutex_);
  const double burst_;
  double tokens_ STOKER_GUARDED_BY(mutex_);  // negative: debt
  Deadline filled_at_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
