#include "dataset/order/permutation.h"

namespace stoker {

unsigned Permutation::rounds_at(std::uint64_t position) const noexcept {
  assert(position < count_);
  if (count_ == 1) return 0;
  unsigned rounds = 0;
  std::uint64_t x = position;
  do {
    x = pass(x);
    rounds += rounds_;
  } while (x >= count_);
  return rounds;
}

}  // namespace stoker
