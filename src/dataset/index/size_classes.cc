#include "dataset/index/size_classes.h"

#include <algorithm>
#include <limits>

namespace stoker {
namespace {

void add(std::uint64_t& sum, std::uint64_t count, std::uint64_t size_bytes) {
  std::uint64_t bytes = 0;
  if (__builtin_mul_overflow(count, size_bytes, &bytes) || __builtin_add_overflow(sum, bytes, &sum))
    sum = std::numeric_limits<std::uint64_t>::max();
}

}  // namespace

std::uint64_t SizeClasses::largest_sum(const Counts& counts, std::uint64_t size_max,
                                       std::uint64_t count) noexcept {
  std::uint64_t sum = 0;
  for (std::size_t i = kCount; i-- > 0 && count > 0;) {
    const std::uint64_t taken = std::min(count, counts[i]);
    add(sum, taken, std::min(largest_in(i), size_max));
    count -= taken;
  }
  add(sum, count, size_max);
  return sum;
}

}  // namespace stoker
