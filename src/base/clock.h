#pragma once

#include <chrono>

namespace stoker {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using std::chrono::nanoseconds;

/// A timeout that never expires.
inline constexpr nanoseconds kForever = nanoseconds::max();

/// Returns `now` plus `timeout`, saturating: kForever gives Deadline::max().
inline Deadline deadline_after(nanoseconds timeout, Deadline now = Clock::now()) {
  return timeout >= Deadline::max() - now ? Deadline::max() : now + timeout;
}

/// Returns the time left until `deadline`, never negative; kForever for Deadline::max().
inline nanoseconds time_left(Deadline deadline, Deadline now = Clock::now()) {
  if (deadline == Deadline::max()) return kForever;
  return deadline > now ? deadline - now : nanoseconds(0);
}

}  // namespace stoker
