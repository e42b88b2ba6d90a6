/// \file
/// The order of a loader's samples, where some numbers are left to the data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset/loader/loader.h"
#include "dataset/loader/loader_part.h"
#include "dataset/order/mixture.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// What the defaults of an order come from: figures that are the same on every rank.
struct OrderSource {
  std::uint64_t sample_count = 0;       ///< Of an epoch; a mixture has its own default.
  std::uint64_t global_batch_size = 0;  ///< What lanes are dealt by; a mixture has none.
  std::uint64_t sample_bytes = 0;       ///< Of the mean sample, as it is read.
  /// The least number of samples that one of the datasets has, selected or not.
  std::uint64_t whole_count_min = UINT64_MAX;
  std::vector<MixturePart> mixture = {};  ///< Empty: an order of one dataset.
};

/// `wish` with every default put in, as resolve_order(OrderOptions) and resolve_mixture() do it,
/// and before that with those that come from the data: 0 for `sample_count` is the source's, for
/// `deal_samples` the global batch, and for `block_samples` what choose_block_samples() makes of
/// the mean sample. The same on every rank; what a cursor has kept stays as it is.
Result<OrderOptions> resolve_order(const OrderOptions& wish, const OrderSource& source);

/// The bytes of the mean sample of all parts, selected or not; of tokens those of a row.
std::uint64_t mean_sample_bytes(std::span<const LoaderPart> parts);

/// `options.cursor.order` for the one dataset of `options`: 0 for `sample_count` is the number of
/// its samples, windows or packs. `options.order` is not looked at.
Result<OrderOptions> resolve_order(const LoaderOptions& options);

}  // namespace stoker
