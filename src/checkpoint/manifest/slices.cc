#include "checkpoint/manifest/slices.h"

#include <algorithm>
#include <iterator>

namespace stoker {
namespace {

using Overlap = std::optional<std::pair<std::size_t, std::size_t>>;
using Group = std::vector<std::size_t>;

/// Limit of the sizes of all groups examined plus the pairs compared.
constexpr std::uint64_t kWorkMax = 10'000'000;

bool is_empty(const Slice& slice) {
  return std::ranges::any_of(slice.shape, [](std::uint64_t size) { return size == 0; });
}

bool overlap(const Slice& a, const Slice& b) {
  for (std::size_t d = 0; d < a.offsets.size(); ++d) {
    if (a.offsets[d] + a.shape[d] <= b.offsets[d] || b.offsets[d] + b.shape[d] <= a.offsets[d]) {
      return false;
    }
  }
  return true;
}

/// Divides `group` by planes across `dimension`, wherever a plane cuts no slice.
std::vector<Group> cut(std::span<const Slice> slices, Group& group, std::size_t dimension) {
  std::ranges::sort(group, {}, [&](std::size_t i) { return slices[i].offsets[dimension]; });
  std::vector<Group> pieces;
  std::uint64_t end = 0;
  for (const std::size_t i : group) {
    const std::uint64_t begin = slices[i].offsets[dimension];
    if (pieces.empty() || begin >= end) pieces.emplace_back();
    pieces.back().push_back(i);
    end = std::max(end, begin + slices[i].shape[dimension]);
  }
  return pieces;
}

Status too_much_work() {
  return {Code::unsupported, "the slices are laid out too irregularly to be checked"};
}

/// Finds a gap in the dimensions from `d` on, among the slices that contain the position chosen in
/// the dimensions before.
bool find_gap_from(std::size_t d, std::span<const Slice> slices,
                   std::span<const std::uint64_t> shape, Gap& gap) {
  if (d == shape.size()) return slices.empty();
  std::vector<std::uint64_t> borders = {0, shape[d]};
  for (const Slice& slice : slices) {
    borders.push_back(slice.offsets[d]);
    borders.push_back(slice.offsets[d] + slice.shape[d]);
  }
  std::ranges::sort(borders);
  borders.erase(std::ranges::unique(borders).begin(), borders.end());
  for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
    gap.begin[d] = borders[i];
    gap.end[d] = borders[i + 1];
    std::vector<Slice> inside;
    for (const Slice& slice : slices) {
      if (slice.offsets[d] <= gap.begin[d] && gap.end[d] <= slice.offsets[d] + slice.shape[d])
        inside.push_back(slice);
    }
    if (find_gap_from(d + 1, inside, shape, gap)) return true;
  }
  return false;
}

}  // namespace

std::optional<Gap> find_gap(std::span<const Slice> slices, std::span<const std::uint64_t> shape) {
  Gap gap{.begin = std::vector<std::uint64_t>(shape.size()),
          .end = std::vector<std::uint64_t>(shape.size())};
  if (find_gap_from(0, slices, shape, gap)) return gap;
  return std::nullopt;
}

Result<Overlap> find_overlap(std::span<const Slice> slices) {
  std::uint64_t work = 0;
  std::vector<Group> groups(1);
  for (std::size_t i = 0; i < slices.size(); ++i) {
    if (!is_empty(slices[i])) groups[0].push_back(i);
  }
  // A list instead of recursion, because untrusted input would determine its depth.
  while (!groups.empty()) {
    Group group = std::move(groups.back());
    groups.pop_back();
    if (group.size() < 2) continue;
    bool is_cut = false;
    for (std::size_t d = 0; d < slices[group[0]].offsets.size() && !is_cut; ++d) {
      work += group.size();
      if (work > kWorkMax) return too_much_work();
      std::vector<Group> pieces = cut(slices, group, d);
      is_cut = pieces.size() > 1;
      if (is_cut) std::ranges::move(pieces, std::back_inserter(groups));
    }
    if (is_cut) continue;
    // No plane separates these: two of them overlap, or they interlock like a pinwheel.
    for (std::size_t i = 1; i < group.size(); ++i) {
      work += i;
      if (work > kWorkMax) return too_much_work();
      for (std::size_t k = 0; k < i; ++k) {
        if (overlap(slices[group[k]], slices[group[i]])) {
          return Overlap(std::minmax(group[k], group[i]));
        }
      }
    }
  }
  return Overlap();
}

}  // namespace stoker
