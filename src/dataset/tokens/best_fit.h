#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

/// A set of numbers up to a limit. Finds the smallest member that is not below a given number in a
/// few steps, for any limit.
///
/// Thread safety: none.
class NumberSet {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  explicit NumberSet(std::uint64_t limit);

  void insert(std::uint64_t number);
  void erase(std::uint64_t number);
  /// Returns the smallest member that is not below `number`; kNone if there is none.
  std::uint64_t find_at_least(std::uint64_t number) const;

 private:
  /// Bit i of a level is set if word i of the level below has any bit set.
  std::vector<std::vector<std::uint64_t>> levels_;
};

/// Assigns pieces to packs of one length by best fit: each piece goes to the pack with the least
/// remaining space that it fits into, of several such packs to the one filled last, and to a new
/// pack if it fits nowhere. Packs are numbered in the order in which they are started.
///
/// Thread safety: none.
class BestFit {
 public:
  /// `length`: of a pack, at least 1.
  explicit BestFit(std::uint32_t length);

  /// Returns the pack for a piece of `size`, which is from 1 to the length.
  std::uint32_t place(std::uint32_t size);
  std::uint32_t pack_count() const noexcept { return static_cast<std::uint32_t>(next_.size()); }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t length_;
  NumberSet rooms_;                  // sizes of remaining space that some pack has
  std::vector<std::uint32_t> last_;  // by remaining space: the pack filled last
  std::vector<std::uint32_t>
      next_;  // by pack: the pack filled before it with the same remaining space
};

}  // namespace stoker
