#pragma once

#include <bit>
#include <cstdint>

#include "bench/noise.h"

namespace stoker {

enum class Pattern : std::uint8_t { sequential, random };

/// The blocks of a file, in file order or shuffled. Each pass visits every block exactly once, so a
/// cold block stays cold until its turn; independent random draws would return to blocks that are
/// in the page cache by then. Uses constant memory, however large the file.
///
/// Thread safety: none.
class BlockOrder {
 public:
  /// The same seed gives the same order. `block_count` must be at least 1.
  BlockOrder(Pattern pattern, std::uint64_t block_count, std::uint64_t seed)
      : pattern_(pattern),
        block_count_(block_count),
        half_bits_((static_cast<unsigned>(std::bit_width(block_count - 1)) + 1) / 2),
        key_(mix_bits(seed)) {}

  std::uint64_t next() noexcept {
    if (position_ == block_count_) {
      position_ = 0;
      key_ = mix_bits(key_ + 1);  // another order in each pass
    }
    const std::uint64_t position = position_++;
    return pattern_ == Pattern::sequential ? position : shuffled(position);
  }

 private:
  /// A Feistel network permutes the numbers below the next power of four; a result that is too
  /// large is permuted again until it is inside, which gives a permutation of [0, block_count).
  std::uint64_t shuffled(std::uint64_t x) const noexcept {
    const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
    do {
      for (std::uint64_t round = 0; round < 4; ++round) {
        const std::uint64_t right = x & mask;
        x = (right << half_bits_) | ((x >> half_bits_) ^ (mix_bits(right + key_ + round) & mask));
      }
    } while (x >= block_count_);
    return x;
  }

  Pattern pattern_;
  std::uint64_t block_count_;
  unsigned half_bits_;
  std::uint64_t key_;
  std::uint64_t position_ = 0;
};

}  // namespace stoker
