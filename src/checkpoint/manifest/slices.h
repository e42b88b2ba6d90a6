/// \file
/// Overlaps and gaps between the slices of one tensor.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// A box of elements. `offsets[d] + shape[d]` must not wrap. All slices of a tensor have the same
/// number of dimensions.
struct Slice {
  std::span<const std::uint64_t> offsets;
  std::span<const std::uint64_t> shape;
};

/// Returns the indexes of two overlapping slices; nothing if none overlap. Fast for every layout
/// that planes can separate, such as any grid; `unsupported` if the check would take too long,
/// which does not happen for real shardings.
Result<std::optional<std::pair<std::size_t, std::size_t>>> find_overlap(
    std::span<const Slice> slices);

/// A box of elements of a tensor that are in none of the slices: `begin` inclusive, `end`
/// exclusive.
struct Gap {
  std::vector<std::uint64_t> begin;
  std::vector<std::uint64_t> end;
};

/// Returns the first gap, which may be a part of what is missing; nothing if there is none. Slow:
/// for error messages only.
std::optional<Gap> find_gap(std::span<const Slice> slices, std::span<const std::uint64_t> shape);

}  // namespace stoker
