#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace stoker {

/// Numbers below a limit, of which some are in the set; the least that is not below another is
/// found in a few steps, whatever the limit.
///
/// Thread safety: none.
class NumberSet {
 public:
  static constexpr std::uint64_t kNone = ~std::uint64_t{0};

  explicit NumberSet(std::uint64_t limit);

  void insert(std::uint64_t number);
  void erase(std::uint64_t number);
  /// kNone if there is none.
  std::uint64_t find_at_least(std::uint64_t number) const;

 private:
  /// Bit i of a level says whether word i of the one below has any bit set.
  std::vector<std::vector<std::uint64_t>> levels_;
};

/// Puts pieces into packs of one length, best fit: each goes where the least room is left that it
/// fits into, of several such packs into the one that was filled last, and if it fits nowhere into
/// a new one. Packs are numbered as they are begun.
///
/// Thread safety: none.
class BestFit {
 public:
  /// `length`: of a pack, at least 1.
  explicit BestFit(std::uint32_t length);

  /// The pack that takes a piece of `size`, from 1 to the length.
  std::uint32_t place(std::uint32_t size);
  std::uint32_t pack_count() const noexcept { return static_cast<std::uint32_t>(next_.size()); }

 private:
  static constexpr std::uint32_t kNobody = ~std::uint32_t{0};

  std::uint32_t length_;
  NumberSet rooms_;                  // those that some pack has left
  std::vector<std::uint32_t> last_;  // by room: the pack that was filled last
  std::vector<std::uint32_t> next_;  // by pack: the one filled before, with the same room
};

}  // namespace stoker
