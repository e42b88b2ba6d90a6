/// \file
/// Whether slices of one tensor share an element.
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

}  // namespace stoker
