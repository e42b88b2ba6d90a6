/// \file
/// An order given as a list of samples, for example by a sampler.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// Makes an order of one dataset that yields `items`, which may omit and repeat samples. Every
/// epoch is the same. `invalid_argument` if the list is empty, or for an item that is not below
/// `sample_count`, with its place.
Result<std::unique_ptr<SampleOrder>> make_explicit_order(std::vector<std::uint64_t> items,
                                                         std::uint64_t sample_count);

/// The fingerprint that a cursor stores for such an order: a hash of the dataset's fingerprint and
/// the list.
Digest128 explicit_order_fingerprint(const Digest128& dataset,
                                     std::span<const std::uint64_t> items) noexcept;

}  // namespace stoker
