/// \file
/// An order over selected samples of a dataset: a slice, a part of a split, or a list.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// The samples first, first + step, ... of a dataset. `step` may be negative.
struct SampleSlice {
  std::uint64_t first = 0;
  std::int64_t step = 1;
  std::uint64_t count = 0;

  bool operator==(const SampleSlice&) const = default;
};

/// The selected samples of one dataset: item i of the selection is a sample of the dataset.
using Selection = std::variant<SampleSlice, std::vector<std::uint64_t>>;

/// Wraps `order`, whose samples are items of the selections, as an order of the datasets' own
/// samples. There is one selection per dataset; {0, 1, count} selects all of a dataset.
/// `invalid_argument` if the number of selections is wrong, one is empty, or an item is not below
/// its dataset's entry of `sample_counts`.
///
/// next_use() returns nothing for a dataset selected by a list, which would have to be searched.
/// block_at() and window_ranges() return nothing unless there is a single dataset, selected by a
/// slice of step 1: otherwise blocks are not ranges of samples.
Result<std::unique_ptr<SampleOrder>> make_selected_order(
    std::shared_ptr<const SampleOrder> order, std::vector<Selection> selections,
    const std::vector<std::uint64_t>& sample_counts);

/// The fingerprint that a cursor stores for a selection: a hash of the fingerprint of the whole
/// dataset and of the selected samples in order. A slice and the list of its samples have the same
/// one.
Digest128 selection_fingerprint(const Digest128& whole, const Selection& selection);

}  // namespace stoker
