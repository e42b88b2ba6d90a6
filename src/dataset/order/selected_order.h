/// \file
/// An order over some samples of a dataset: a slice of it, a part of a split, a list.
#pragma once

#include <cstdint>
#include <memory>
#include <variant>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// Samples first, first + step, ...: what a slice of a dataset has. `step` may be negative.
struct SampleSlice {
  std::uint64_t first = 0;
  std::int64_t step = 1;
  std::uint64_t count = 0;

  bool operator==(const SampleSlice&) const = default;
};

/// Which samples of one dataset there are: item i of the selection is a sample of the dataset.
using Selection = std::variant<SampleSlice, std::vector<std::uint64_t>>;

/// `order`, whose samples are items of the selections, as an order of the datasets' own samples.
/// One selection for each of its datasets; all of a dataset is {0, 1, its count}.
/// `invalid_argument` for another number of selections, an empty one, and for an item that is not
/// below its entry of `sample_counts`.
///
/// Where a dataset is selected by a list, next_use() and the block functions answer nothing: the
/// list would have to be searched, and its samples are no ranges.
Result<std::unique_ptr<SampleOrder>> make_selected_order(
    std::shared_ptr<const SampleOrder> order, std::vector<Selection> selections,
    const std::vector<std::uint64_t>& sample_counts);

/// What a cursor keeps for a dataset of which some samples are selected: of the fingerprint of
/// `whole` and the samples in their order. The same for a slice and for the list of its samples.
Digest128 selection_fingerprint(const Digest128& whole, const Selection& selection);

}  // namespace stoker
