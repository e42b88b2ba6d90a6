/// \file
/// The write cliff: many drives write the first gigabytes fast, into their own cache, and the rest
/// slowly. find_cliff() finds it in a series of measured windows, without I/O.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/clock.h"

namespace stoker {

/// One period of writing, including fdatasync.
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
  std::size_t windows_min = 8;  ///< On each side: fewer are not significant.
  double drop_min = 0.25;       ///< Minimum loss, as a share of the rate before.
  double significance = 6;      ///< Distance of the means in standard errors; noise reaches 4.
};

struct Cliff {
  std::size_t window = 0;  ///< The first window after the drop.
  std::uint64_t bytes_before = 0;
  double bytes_per_s_before = 0;
  double bytes_per_s_after = 0;

  double drop() const noexcept { return 1 - bytes_per_s_after / bytes_per_s_before; }
  /// Returns a rate that the drive can sustain, with a margin of 5 %.
  std::uint64_t limit_bytes_per_s() const noexcept {
    return static_cast<std::uint64_t>(bytes_per_s_after * 0.95);
  }
};

/// Returns the position at which two constant rates fit the windows best, if the second is lower by
/// `drop_min` and by more than noise. A steady decline is not a cliff: a straight line fits it
/// better. Returns nullopt if there is no cliff.
std::optional<Cliff> find_cliff(std::span<const RateWindow> windows, const CliffRule& rule = {});

}  // namespace stoker
