#include "io/engine/rate_limiter.h"

#include <algorithm>

namespace stoker {

RateLimiter::RateLimiter(std::uint64_t rate_bytes_per_s, std::uint64_t burst_bytes, Deadline now)
    : rate_(rate_bytes_per_s),
      burst_(static_cast<double>(burst_bytes)),
      tokens_(burst_),
      filled_at_(now) {}

void RateLimiter::refill(Deadline now) {
  const std::chrono::duration<double> elapsed = now - filled_at_;
  if (elapsed.count() <= 0) return;  // two callers may pass their times out of order
  tokens_ = std::min(burst_, tokens_ + elapsed.count() * static_cast<double>(rate_));
  filled_at_ = now;
}

nanoseconds RateLimiter::reserve(std::uint64_t bytes, Deadline now) {
  MutexLock lock(mutex_);
  if (rate_ == 0) return nanoseconds(0);
  refill(now);
  tokens_ -= static_cast<double>(bytes);
  if (tokens_ >= 0) return nanoseconds(0);
  return std::chrono::duration_cast<nanoseconds>(
      std::chrono::duration<double>(-tokens_ / static_cast<double>(rate_)));
}

void RateLimiter::give_back(std::uint64_t bytes) {
  MutexLock lock(mutex_);
  if (rate_ != 0) tokens_ = std::min(burst_, tokens_ + static_cast<double>(bytes));
}

void RateLimiter::set_rate(std::uint64_t rate_bytes_per_s, Deadline now) {
  MutexLock lock(mutex_);
  if (rate_ == 0) {
    tokens_ = burst_;
    filled_at_ = now;
  }
  refill(now);
  rate_ = rate_bytes_per_s;
}

std::uint64_t RateLimiter::rate_bytes_per_s() const {
  MutexLock lock(mutex_);
  return rate_;
}

}  // namespace stoker
