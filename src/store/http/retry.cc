#include "store/http/retry.h"

#include <algorithm>
#include <chrono>

namespace stoker {

using namespace std::chrono_literals;

nanoseconds retry_delay(std::uint32_t attempt, std::uint64_t random) noexcept {
  constexpr nanoseconds kFirst = 50ms;
  constexpr nanoseconds kLongest = 5s;
  constexpr std::uint32_t kDoublingsMax = 10;
  const nanoseconds longest =
      std::min(kLongest, kFirst * (std::int64_t{1} << std::min(attempt, kDoublingsMax)));
  return nanoseconds(random % static_cast<std::uint64_t>(longest.count()));
}

void RetryBudget::earn_request() {
  MutexLock lock(mutex_);
  saved_ = std::min(rates_.saved_max, saved_ + rates_.per_request);
}

bool RetryBudget::try_take(Deadline now) {
  MutexLock lock(mutex_);
  if (now > refilled_) {
    const double seconds = std::chrono::duration<double>(now - refilled_).count();
    saved_ = std::min(rates_.saved_max, saved_ + rates_.per_second * seconds);
    refilled_ = now;
  }
  if (saved_ < 1) return false;
  saved_ -= 1;
  return true;
}

bool Admission::try_enter(bool has_others) {
  MutexLock lock(mutex_);
  if (has_others && in_flight_ + 1 > limit_) return false;
  ++in_flight_;
  return true;
}

void Admission::leave() {
  MutexLock lock(mutex_);
  --in_flight_;
}

void Admission::succeeded() {
  MutexLock lock(mutex_);
  // A limit that is not used says nothing about the server: the success of few at a time must not
  // raise it.
  if (2 * (in_flight_ + 1.0) < limit_) return;
  // So slowly that fewer than a tenth of the requests are refused, also where the limit is small.
  constexpr double kRequestsToDouble = 64;
  const bool is_known = lowered_ != Deadline::min();
  const double more = is_known ? std::min(1 / limit_, limit_ / kRequestsToDouble) : 1;
  limit_ = std::min(limit_max_, limit_ + more);
}

void Admission::throttled(Deadline sent, Deadline now) {
  constexpr double kFactor = 0.7;
  MutexLock lock(mutex_);
  if (sent <= lowered_) return;  // of those that lowered it
  lowered_ = now;
  limit_ = std::max(1.0, std::min<double>(limit_, in_flight_ + 1) * kFactor);
}

double Admission::limit() {
  MutexLock lock(mutex_);
  return limit_;
}

}  // namespace stoker
