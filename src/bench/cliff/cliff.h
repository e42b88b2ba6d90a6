/// \file
/// The write cliff: many drives absorb the first gigabytes fast, into a cache of their own, and the
/// rest slowly. Finding it in a row of measured windows is pure arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"

namespace stoker {

/// One stretch of writing, fdatasync included.
struct RateWindow {
  std::uint64_t bytes = 0;
  nanoseconds elapsed{0};

  double bytes_per_s() const noexcept {
    return elapsed.count() <= 0
               ? 0
               : static_cast<double>(bytes) * 1e9 / static_cast<double>(elapsed.count());
  }
};

struct CliffRule {
  std::size_t windows_min = 8;  ///< On each side: fewer prove nothing.
  double drop_min = 0.25;       ///< Share of the rate before that is lost.
  double significance = 6;      ///< Distance of the means in standard errors: noise reaches 4.
};

struct Cliff {
  std::size_t window = 0;  ///< The first one after the break.
  std::uint64_t bytes_before = 0;
  double bytes_per_s_before = 0;
  double bytes_per_s_after = 0;

  double drop() const noexcept { return 1 - bytes_per_s_after / bytes_per_s_before; }
  /// A rate that the drive can keep up, with a margin of 5 %.
  std::uint64_t limit_bytes_per_s() const noexcept {
    return static_cast<std::uint64_t>(bytes_per_s_after * 0.95);
  }
};

/// The place where two constant rates explain the windows best, if the second is lower by
/// `drop_min` and beyond noise. A steady decline is not a cliff: there a straight line fits better.
/// Nothing if no place qualifies.
std::optional<Cliff> find_cliff(std::span<const RateWindow> windows, const CliffRule& rule = {});

}  // namespace stoker
