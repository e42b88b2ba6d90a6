/// \file
/// How keys are derived from a seed: each use of randomness in an order has a purpose, and hashes
/// the purpose, the seed and everything else it depends on as a sequence of 64-bit words. Part of
/// the definition in docs/formats/order.md, which never changes.
#pragma once

#include <cstdint>

#include "dataset/order/permutation.h"

namespace stoker::internal {

/// The purpose of a hash, which is its first word. The numbers are part of the order.
enum class Purpose : std::uint64_t {
  global = 1,         ///< seed, epoch: the permutation of all samples
  blocks = 2,         ///< seed, epoch: the permutation of the full blocks
  window = 3,         ///< seed, epoch, lane, window: the permutation inside a window
  rest = 4,           ///< seed, epoch: the permutation of the samples outside the lanes
  rotation = 5,       ///< seed, epoch: where the ring of samples begins
  resampled = 6,      ///< seed, epoch, position: the draw
  mixture_cycle = 7,  ///< seed, cycle: the permutation of the slots
  mixture_part = 8,   ///< seed, dataset: that dataset's own seed
  decoder = 9,        ///< seed, epoch, position: what decoders do at random
};

inline constexpr std::uint64_t kWeyl = 0x9e3779b97f4a7c15U;  // 2^64 / golden ratio, odd

/// A bijection of 64-bit words in which every bit depends on every other (splitmix64's finalizer).
constexpr std::uint64_t mix64(std::uint64_t z) noexcept {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
  return z ^ (z >> 31);
}

/// The state of a hash: its purpose and the words so far.
///
/// Thread safety: a value.
class OrderHash {
 public:
  constexpr explicit OrderHash(Purpose purpose) noexcept
      : state_(static_cast<std::uint64_t>(purpose)) {}

  /// Returns the hash with one more word.
  constexpr OrderHash with(std::uint64_t word) const noexcept {
    OrderHash next = *this;
    next.state_ = mix64(state_ ^ mix64(word + kWeyl));
    return next;
  }

  constexpr std::uint64_t value() const noexcept { return state_; }
  constexpr PermutationKey key() const noexcept {
    return {.low = mix64(state_ + kWeyl), .high = mix64(state_ + 2 * kWeyl) | 1};
  }

 private:
  std::uint64_t state_;
};

}  // namespace stoker::internal
