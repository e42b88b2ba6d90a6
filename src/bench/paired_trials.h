/// \file
/// Decides whether one setting is faster than another, from rates measured in turns.
#pragma once

#include <cstddef>
#include <span>

namespace stoker {

/// The result of pairs of measurements. The two of a pair are taken one right after the other, so
/// that other load on the machine affects both.
struct PairedVerdict {
  std::size_t pairs = 0;
  std::size_t wins = 0;  ///< Pairs in which the challenger was faster.
  double gain = 0;       ///< The median of (challenger / base - 1).
  /// Whether the gain is significant: see compare_pairs().
  bool is_clear = false;
};

/// Smaller gains are not worth a change.
inline constexpr double kGainMin = 0.05;
/// From this number of pairs on, one may be a loss: if both settings are equal, 1 of 51 comparisons
/// of nine pairs has that many wins by chance.
inline constexpr std::size_t kPairsEnough = 9;
/// With fewer pairs nothing is clear. With five, every one must be a win (1 of 32 by chance).
inline constexpr std::size_t kPairsMin = 5;

/// Compares `challenger[i]` with `base[i]`, up to the length of the shorter one; pairs whose base
/// is 0 are ignored. Clear means a median gain of kGainMin or more, and wins in every pair, or in
/// all but one of at least kPairsEnough.
PairedVerdict compare_pairs(std::span<const double> base, std::span<const double> challenger);

/// Returns the median: of an even number of values the mean of the middle two; 0 if there are none.
double median_of(std::span<const double> values);

}  // namespace stoker
