/// \file
/// Whether slices of one tensor share an element, or leave one out.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// A box of elements. `offsets[d] + shape[d]` must not wrap; both have as many dimensions, the same
/// for all slices that are compared.
struct Slice {
  std::span<const std::uint64_t> offsets;
  std::span<const std::uint64_t> shape;
};

/// Two slices that overlap, by their positions in `slices`; nothing if none do. Fast for every
/// layout that planes can cut apart, as grids of any kind are; `unsupported` where that would take
/// too long, which no way of sharding a tensor does.
Result<std::optional<std::pair<std::size_t, std::size_t>>> find_overlap(
    std::span<const Slice> slices);

/// Elements of a tensor that lie in none of the slices: a box, by its first and its last positions,
/// the last ones not included.
struct Gap {
  std::vector<std::uint64_t> begin;
  std::vector<std::uint64_t> end;
};

/// The first gap, which is not always the whole of what is missing; nothing if there is none. To
/// explain what counting has found: it takes its time.
std::optional<Gap> find_gap(std::span<const Slice> slices, std::span<const std::uint64_t> shape);

}  // namespace stoker
