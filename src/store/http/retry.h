/// \file
/// When a request is sent again, and how many are sent at a time. Shared by all threads that use a
/// store.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/clock.h"
#include "base/mutex.h"

namespace stoker {

/// Returns how long to wait before attempt `attempt` + 1, by `random` of 64 bits: between 0 and 50
/// ms doubled with each attempt, at most 5 s ("full jitter"), so that clients that failed together
/// do not come back together.
nanoseconds retry_delay(std::uint32_t attempt, std::uint64_t random) noexcept;

/// Limits what retries add to the load of a server: by default, a request earns a tenth of a retry,
/// a second earns one, and 50 can be saved up. A server that fails everything is so asked once in a
/// second instead of ten times as often as when it works.
///
/// Thread safety: every method from any thread.
class RetryBudget {
 public:
  struct Rates {
    double per_request = 0.1;
    double per_second = 1;
    double saved_max = 50;  ///< Of which as many are there at first.
  };

  RetryBudget() : RetryBudget(Rates()) {}
  explicit RetryBudget(const Rates& rates) : rates_(rates), saved_(rates.saved_max) {}

  void earn_request();
  /// Takes a retry from the budget; false if there is none.
  bool try_take(Deadline now);

 private:
  const Rates rates_;
  Mutex mutex_;
  double saved_ STOKER_GUARDED_BY(mutex_);
  Deadline refilled_ STOKER_GUARDED_BY(mutex_) = Clock::now();
};

/// Limits the requests in flight, to 32 at first. A server that asks for fewer (503, 429) gets 0.7
/// times as many, once for all requests that were in flight together. Each success raises the limit
/// if at least half of it is used: by one until the server has asked for fewer, then by one for as
/// many requests as it allows, or for more if it is small. So a server's limit is found with fewer
/// refusals than RetryBudget has retries. Whoever has no request in flight may send one after a
/// second: a thread that rests with requests in flight cannot hold up the others.
///
/// Thread safety: every method from any thread.
class Admission {
 public:
  static constexpr std::uint32_t kLimitAtFirst = 32;

  explicit Admission(std::uint32_t limit_max)
      : limit_max_(limit_max), limit_(std::min(limit_max, kLimitAtFirst)) {}

  bool try_enter(bool has_others);
  void leave();
  void succeeded();  ///< After leave().
  /// The server refused a request that was sent at `sent`.
  void throttled(Deadline sent, Deadline now);
  double limit();

 private:
  const double limit_max_;
  Mutex mutex_;
  double limit_ STOKER_GUARDED_BY(mutex_);
  std::uint32_t in_flight_ STOKER_GUARDED_BY(mutex_) = 0;
  Deadline lowered_ STOKER_GUARDED_BY(mutex_) = Deadline::min();
};

}  // namespace stoker
