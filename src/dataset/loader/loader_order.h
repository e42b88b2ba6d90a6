/// \file
/// Resolves the order of a loader's samples, with defaults chosen from the data.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "dataset/loader/loader_part.h"
#include "dataset/loader/loader_run.h"
#include "dataset/order/mixture.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// Inputs for the defaults of an order: numbers that are the same on every rank.
struct OrderBasis {
  std::uint64_t sample_count = 0;       ///< In an epoch; not used for a mixture.
  std::uint64_t global_batch_size = 0;  ///< Default of deal_samples; not used for a mixture.
  std::uint64_t sample_bytes = 0;       ///< Mean size of a sample, as it is read.
  /// Number of samples of the smallest dataset, selected or not.
  std::uint64_t whole_count_min = UINT64_MAX;
  std::vector<MixturePart> mixture = {};  ///< Empty for an order of one dataset.
};

/// Returns `request` with every default filled in, as by resolve_order(OrderOptions) and
/// resolve_mixture(), but with some defaults from `basis`: `sample_count` and, from the global
/// batch size, `deal_samples` (not in a mixture), and `block_samples` from choose_block_samples().
/// The same on every rank. Numbers that are not 0, such as those of a cursor, are kept.
Result<OrderOptions> resolve_order(const OrderOptions& request, const OrderBasis& basis);

/// Mean size in bytes of the samples of all parts, selected or not; for tokens, the size of a row.
std::uint64_t mean_sample_bytes(std::span<const LoaderPart> parts);

/// Resolves `options.cursor.order` for the single dataset of `options`; a `sample_count` of 0
/// becomes the number of its samples, windows or packs. Ignores `options.order`. `invalid_argument`
/// if there is not exactly one dataset.
Result<OrderOptions> resolve_order(const LoaderRunOptions& options);

}  // namespace stoker
