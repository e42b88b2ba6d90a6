#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>

namespace stoker {

/// Classes of record sizes, four per doubling: sizes up to 4 have one class each, and above that a
/// class's largest size is less than 5/4 of its smallest. The index counts its records by class.
struct SizeClasses {
  static constexpr std::size_t kCount = 192;  ///< Enough for sizes below 2^48.
  using Counts = std::array<std::uint64_t, kCount>;

  /// For `size_bytes` below 2^48.
  static constexpr std::size_t index_of(std::uint64_t size_bytes) noexcept {
    if (size_bytes <= 4) return size_bytes;
    const std::uint64_t below = size_bytes - 1;
    const auto shift = static_cast<std::size_t>(std::bit_width(below)) - 3;
    return 1 + 4 * shift + (below >> shift);  // below >> shift is in [4, 8)
  }

  /// The largest size of a class.
  static constexpr std::uint64_t largest_in(std::size_t index) noexcept {
    if (index <= 4) return index;
    const std::size_t shift = (index - 5) / 4;
    return (5 + (index - 5) % 4) << shift;
  }

  /// The sum of the `count` largest sizes, each counted as the largest of its class but at most
  /// `size_max`. If there are fewer sizes, the others count as `size_max` each: a batch may contain
  /// a sample more than once. Saturates.
  static std::uint64_t largest_sum(const Counts& counts, std::uint64_t size_max,
                                   std::uint64_t count) noexcept;
};

}  // namespace stoker
