#pragma once

#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace stoker {

/// A token bucket of bytes: at most `burst_bytes` at once, `rate_bytes_per_s` in the long run.
///
/// A request is granted at once and may put the bucket in debt; reserve() returns the time until
/// the debt is paid. The caller waits for that time itself, because it may have a deadline or other
/// work. Requests larger than the burst therefore pass, and callers are served in order.
///
/// Thread safety: every method may be called from any thread.
class RateLimiter {
 public:
  /// A rate of 0 means unlimited. The bucket starts full.
  RateLimiter(std::uint64_t rate_bytes_per_s, std::uint64_t burst_bytes,
              Deadline now = Clock::now());

  /// Reserves `bytes` and returns how long the caller must wait before it moves them.
  nanoseconds reserve(std::uint64_t bytes, Deadline now = Clock::now());

  /// Returns a reservation that will not be used, so that later callers need not wait for it.
  void give_back(std::uint64_t bytes);

  /// Changes the rate for later reservations; waiting times already returned do not change.
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
