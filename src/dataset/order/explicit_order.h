/// \file
/// An order that somebody else made: a list of samples, as from a sampler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// The samples of one dataset in the order of `items`, some of them or all, once or often. Every
/// epoch is the same. `invalid_argument` for an empty list, and for an item that is not below
/// `sample_count`, with its place.
Result<std::unique_ptr<SampleOrder>> make_explicit_order(std::vector<std::uint64_t> items,
                                                         std::uint64_t sample_count);

/// What a cursor keeps for such an order: of the dataset's fingerprint and the list.
Digest128 explicit_order_fingerprint(const Digest128& dataset,
                                     std::span<const std::uint64_t> items) noexcept;

}  // namespace stoker
