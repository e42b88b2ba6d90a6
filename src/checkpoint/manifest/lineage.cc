#include "checkpoint/manifest/lineage.h"

#include <algorithm>

namespace stoker {

bool is_line(std::string_view text) noexcept {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  return text.empty() || (text.size() == 32 && std::ranges::all_of(text, is_digit));
}

bool is_lineage_of(std::span<const GenerationRange> lineage, std::uint64_t generation) {
  std::uint64_t before = 0;  // 0 is no generation
  for (const GenerationRange& range : lineage) {
    if (!is_line(range.line) || range.first <= before || range.last < range.first ||
        range.last >= generation)
      return false;
    before = range.last;
  }
  return lineage.size() <= kLineageRangesMax;
}

bool is_in_lineage(std::span<const GenerationRange> lineage, std::string_view line,
                   std::uint64_t generation) {
  return std::ranges::any_of(lineage, [&](const GenerationRange& range) {
    return range.first <= generation && generation <= range.last && range.line == line;
  });
}

bool is_line_of(std::span<const GenerationRange> lineage, std::string_view line) {
  return !line.empty() && std::ranges::find(lineage, line, &GenerationRange::line) != lineage.end();
}

bool share_ancestor(std::span<const GenerationRange> one, std::span<const GenerationRange> other) {
  return std::ranges::any_of(one, [&](const GenerationRange& a) {
    return std::ranges::any_of(other, [&](const GenerationRange& b) {
      return a.first <= b.last && b.first <= a.last && a.line == b.line;
    });
  });
}

Lineage continue_lineage(Lineage lineage, const std::string& line, std::uint64_t generation) {
  if (!lineage.empty() && lineage.back().line == line && lineage.back().last + 1 == generation)
    lineage.back().last = generation;
  else
    lineage.push_back({.line = line, .first = generation, .last = generation});
  if (lineage.size() > kLineageRangesMax) lineage.erase(lineage.begin());
  return lineage;
}

}  // namespace stoker
