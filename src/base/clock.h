#pragma once

#include <chrono>

namespace stoker {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;
using std::chrono::nanoseconds;

/// No deadline at all; as a time-out, "for ever".
inline constexpr nanoseconds kForever = nanoseconds::max();

/// The moment `timeout` from now, saturating: kForever gives Deadline::max().
inline Deadline deadline_after(nanoseconds timeout, Deadline now = Clock::now()) {
  return timeout >= Deadline::max() - now ? Deadline::max() : now + timeout;
}

/// The time left until `deadline`, never negative.
inline nanoseconds time_left(Deadline deadline, Deadline now = Clock::now()) {
  if (deadline == Deadline::max()) return kForever;
  return deadline > now ? deadline - now : nanoseconds(0);
}

}  // namespace stoker
