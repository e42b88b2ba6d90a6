#include "dataset/loader/loader_order.h"

#include <algorithm>

#include "dataset/loader/token_units.h"
#include "dataset/order/block_samples.h"

namespace stoker {
namespace {

std::uint64_t mean_sample_bytes(const Dataset& dataset) {
  std::uint64_t total = 0;
  for (const IndexedShard& shard : dataset.index().shards()) total += shard.plain_size_bytes;
  return total / std::max<std::uint64_t>(dataset.sample_count(), 1);
}

}  // namespace

Result<OrderOptions> resolve_order(const LoaderOptions& options) {
  if (options.datasets.size() != 1 || !options.datasets.front())
    return Status(Code::invalid_argument, "order: from the data of one dataset, and there is none");
  const Dataset& dataset = *options.datasets.front();
  STOKER_ASSIGN(const internal::TokenUnits units, internal::TokenUnits::make(options));
  OrderOptions wish = options.cursor.order;
  if (wish.sample_count == 0)
    wish.sample_count = units.is_any() ? units.count(0) : dataset.sample_count();
  if (wish.deal_samples == 0) wish.deal_samples = options.cut.global_batch_size;
  if (wish.shuffle != Shuffle::block || wish.block_samples != 0) return resolve_order(wish);
  STOKER_ASSIGN(OrderOptions resolved, resolve_order(wish));
  resolved.block_samples = choose_block_samples(
      {.sample_count = resolved.sample_count,
       .sample_bytes = units.is_any() ? units.row_bytes_max() : mean_sample_bytes(dataset),
       .lanes = resolved.lanes});
  return resolved;
}

}  // namespace stoker
