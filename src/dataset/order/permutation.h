/// \file
/// A keyed permutation of [0, count) that is computed and never stored. docs/formats/order.md has
/// its definition, which never changes: a run that is resumed years later sees the same order.
///
/// The items are embedded in the smallest domain of 2^n values, n >= 8, that contains them. A
/// Feistel network permutes that domain: x is split into a left part of n - floor(n/2) bits and a
/// right part of floor(n/2) bits, and each round changes one part by a function of the other and
/// the key. A value that lands outside of [0, count) is permuted again until it is inside ("cycle
/// walking"), which keeps the whole a permutation of [0, count).
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>

namespace stoker {

/// 128 bits that select the permutation; order_hash.h derives them from a seed.
struct PermutationKey {
  std::uint64_t low = 0;
  std::uint64_t high = 1;  ///< Odd: the step from one round's key to the next.

  bool operator==(const PermutationKey&) const = default;
};

/// The average cost does not depend on the position: a pass through the network is a fixed number
/// of operations, and the average number of passes is 2^n / count, which is below 2 for counts of
/// 129 and more, and 256 / count below that. Construction is cheap.
///
/// Thread safety: immutable.
class Permutation {
 public:
  static constexpr std::uint64_t kCountMax = std::uint64_t{1} << 62;
  static constexpr unsigned kDomainBitsMin = 8;
  /// Some differences between two items are slightly likelier than others, by about 2^(n/2 (1 -
  /// rounds/2)). With 8 rounds that is 1 in 200 at n = 8 (measured), so small domains get more
  /// rounds: the bias is then at most 4 in 10^6, at n = 12.
  static constexpr unsigned kRounds = 8;
  static constexpr unsigned kRoundsSmall = 12;
  static constexpr unsigned kSmallDomainBits = 12;  ///< Domains of fewer bits are small.

  /// `count` is from 1 to kCountMax.
  Permutation(std::uint64_t count, PermutationKey key) noexcept
      : count_(count), key_{key.low, key.high | 1} {
    assert(count >= 1 && count <= kCountMax);
    const unsigned bits =
        std::max(kDomainBitsMin, static_cast<unsigned>(std::bit_width(count - 1)));
    right_bits_ = bits / 2;
    left_bits_ = bits - right_bits_;
    rounds_ = bits < kSmallDomainBits ? kRoundsSmall : kRounds;
  }

  std::uint64_t count() const noexcept { return count_; }

  /// The item at `position`, which is below count().
  std::uint64_t operator()(std::uint64_t position) const noexcept {
    assert(position < count_);
    if (count_ == 1) return 0;
    std::uint64_t x = position;
    do {
      x = pass(x);
    } while (x >= count_);
    return x;
  }

  /// The position of `item`, which is below count(): inverse((*this)(p)) == p.
  std::uint64_t inverse(std::uint64_t item) const noexcept {
    assert(item < count_);
    if (count_ == 1) return 0;
    std::uint64_t x = item;
    do {
      x = pass_back(x);
    } while (x >= count_);
    return x;
  }

  /// The cost of operator() at `position`, in rounds. For tests, which count instead of timing.
  unsigned rounds_at(std::uint64_t position) const noexcept;

 private:
  /// The round function: the top `bits` of a value that depends on every bit of `x` and of the
  /// round's key. Two multiplications, because with one the difference of two outputs would follow
  /// from the difference of their inputs.
  static std::uint64_t scramble(std::uint64_t x, std::uint64_t round_key, unsigned bits) noexcept {
    std::uint64_t z = (x ^ round_key) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 32)) * 0x94d049bb133111ebU;
    return z >> (64 - bits);
  }

  std::uint64_t pass(std::uint64_t x) const noexcept {
    std::uint64_t left = x >> right_bits_;
    std::uint64_t right = x & ((std::uint64_t{1} << right_bits_) - 1);
    std::uint64_t round_key = key_.low;
    for (unsigned round = 0; round < rounds_; round += 2) {
      left ^= scramble(right, round_key, left_bits_);
      right ^= scramble(left, round_key + key_.high, right_bits_);
      round_key += 2 * key_.high;
    }
    return (left << right_bits_) | right;
  }

  /// The rounds of pass() from the last to the first: each undoes itself.
  std::uint64_t pass_back(std::uint64_t x) const noexcept {
    std::uint64_t left = x >> right_bits_;
    std::uint64_t right = x & ((std::uint64_t{1} << right_bits_) - 1);
    std::uint64_t round_key = key_.low + (rounds_ - 2) * key_.high;
    for (unsigned round = 0; round < rounds_; round += 2) {
      right ^= scramble(left, round_key + key_.high, right_bits_);
      left ^= scramble(right, round_key, left_bits_);
      round_key -= 2 * key_.high;
    }
    return (left << right_bits_) | right;
  }

  std::uint64_t count_;
  PermutationKey key_;
  unsigned right_bits_ = 0;
  unsigned left_bits_ = 0;
  unsigned rounds_ = 0;
};

}  // namespace stoker
