/// \file
/// Whether one setting is really faster than another, from rates measured in turns.
#pragma once

#include <cstddef>
#include <span>

namespace stoker {

/// What pairs of measurements say. The two of a pair were taken one right after the other, so that
/// what the machine does besides weighs on both.
struct PairedVerdict {
  std::size_t pairs = 0;
  std::size_t wins = 0;  ///< Pairs in which the challenger was faster.
  double gain = 0;       ///< The middle one of (challenger / base - 1).
  /// Whether to believe it: see compare_pairs().
  bool is_clear = false;
};

/// Below this gain nobody would notice the difference.
inline constexpr double kGainMin = 0.05;
/// Pairs that it takes to let one of them go the other way: by chance alone, 1 of 51 such
/// comparisons of equals has that many wins.
inline constexpr std::size_t kPairsEnough = 9;
/// Pairs below which nothing is clear; of so few every one must be a win (1 of 32 by chance).
inline constexpr std::size_t kPairsMin = 5;

/// Compares `challenger[i]` with `base[i]`, as far as both go. Clear means a gain of kGainMin or
/// more, seen in every pair, or in all but one of kPairsEnough.
PairedVerdict compare_pairs(std::span<const double> base, std::span<const double> challenger);

/// The middle value, of an even number the mean of both; 0 of none.
double median_of(std::span<const double> values);

}  // namespace stoker
