/// \file
/// Selections of selections: some of the samples of a dataset of which some were selected.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dataset/order/selected_order.h"
#include "stoker/status.h"

namespace stoker {

/// Returns the sample that item `number` of a selection is; `number` must be below its size.
std::uint64_t selected_sample(const Selection& selection, std::uint64_t number) noexcept;

/// Returns which item a sample is; nothing if it was not selected. Of several, the first.
std::optional<std::uint64_t> find_selected(const Selection& selection,
                                           std::uint64_t sample) noexcept;

/// Returns the samples of `selection` at these items. `invalid_argument` for one that is not below
/// `count`, the size of the selection.
Result<Selection> select_from(const Selection& selection, std::uint64_t count,
                              std::span<const std::uint64_t> numbers);

/// Returns the samples [first, first + count) of `selection`, which must have them.
Selection slice_of(const Selection& selection, std::uint64_t first, std::uint64_t count);

/// Divides the samples of `selection` into disjoint parts, each in ascending order of its items.
/// `parts` are fractions that sum to 1, or counts that sum to `count`. With a seed, item i goes to
/// a place by mix(mix(seed) + i * 0x9E3779B97F4A7C15), where mix is the finalizer of SplitMix64:
/// the same parts on every machine and in every version, and in Python.
Result<std::vector<Selection>> split_selection(const Selection& selection, std::uint64_t count,
                                               std::span<const double> parts,
                                               std::optional<std::uint64_t> seed);

}  // namespace stoker
