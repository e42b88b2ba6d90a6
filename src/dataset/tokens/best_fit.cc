#include "dataset/tokens/best_fit.h"

#include <bit>

namespace stoker {

NumberSet::NumberSet(std::uint64_t limit) {
  do {
    limit = limit / 64 + 1;
    levels_.emplace_back(limit);
  } while (limit > 1);
}

void NumberSet::insert(std::uint64_t number) {
  for (std::vector<std::uint64_t>& level : levels_) {
    level[number / 64] |= std::uint64_t{1} << number % 64;
    number /= 64;
  }
}

void NumberSet::erase(std::uint64_t number) {
  for (std::vector<std::uint64_t>& level : levels_) {
    level[number / 64] &= ~(std::uint64_t{1} << number % 64);
    if (level[number / 64] != 0) return;
    number /= 64;
  }
}

std::uint64_t NumberSet::find_at_least(std::uint64_t number) const {
  for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
    const std::uint64_t word = number / 64;
    if (word >= levels_[depth].size()) return kNone;
    const std::uint64_t rest = levels_[depth][word] & ~std::uint64_t{0} << number % 64;
    if (rest == 0) {  // not in this word: search the level above for the next word
      number = word + 1;
      continue;
    }
    number = word * 64 + static_cast<std::uint64_t>(std::countr_zero(rest));
    while (depth-- > 0)  // then down to its smallest number
      number = number * 64 + static_cast<std::uint64_t>(std::countr_zero(levels_[depth][number]));
    return number;
  }
  return kNone;
}

BestFit::BestFit(std::uint32_t length) : length_(length), rooms_(length), last_(length, kNobody) {}

std::uint32_t BestFit::place(std::uint32_t size) {
  const std::uint64_t room = rooms_.find_at_least(size);
  std::uint32_t pack = pack_count();
  std::uint64_t left = length_ - size;
  if (room == NumberSet::kNone) {
    next_.push_back(kNobody);
  } else {
    pack = last_[room];
    last_[room] = next_[pack];
    if (last_[room] == kNobody) rooms_.erase(room);
    left = room - size;
  }
  if (left > 0) {
    next_[pack] = last_[left];
    last_[left] = pack;
    rooms_.insert(left);
  }
  return pack;
}

}  // namespace stoker
