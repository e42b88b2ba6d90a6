/// \file
/// The order of a loader with one dataset, where some numbers are left to the data.
#pragma once

#include "dataset/loader/loader.h"
#include "dataset/order/order.h"
#include "stoker/status.h"

namespace stoker {

/// `options.cursor.order` with every default put in, as resolve_order(OrderOptions) does it, and
/// before that with those that come from the rest of the options: 0 for `sample_count` is the
/// number of the dataset's samples, windows or packs, for `deal_samples` the global batch, and for
/// `block_samples` what choose_block_samples() makes of the mean size of a sample. `order` is not
/// looked at. The same on every rank; what a cursor has kept stays as it is.
Result<OrderOptions> resolve_order(const LoaderOptions& options);

}  // namespace stoker
