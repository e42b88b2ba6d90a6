#include "checkpoint/lineage.h"

#include <algorithm>

namespace stoker {

bool is_lineage_of(std::span<const GenerationRange> lineage, std::uint64_t generation) {
  std::uint64_t end = 0;  // of the range before, and one more: 0 is no generation
  for (const GenerationRange& range : lineage) {
    if (range.first <= end || range.last < range.first || range.last >= generation) return false;
    end = range.last + 1;
  }
  return true;
}

bool is_in_lineage(std::span<const GenerationRange> lineage, std::uint64_t generation) {
  const auto after = std::ranges::upper_bound(lineage, generation, {}, &GenerationRange::first);
  return after != lineage.begin() && generation <= std::prev(after)->last;
}

Lineage continue_lineage(Lineage lineage, std::uint64_t generation) {
  if (!lineage.empty() && lineage.back().last + 1 == generation)
    lineage.back().last = generation;
  else
    lineage.push_back({.first = generation, .last = generation});
  return lineage;
}

}  // namespace stoker
