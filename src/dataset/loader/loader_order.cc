#include "dataset/loader/loader_order.h"

#include <algorithm>

#include "dataset/order/block_samples.h"

namespace stoker {
namespace {

Result<OrderOptions> resolve(const OrderOptions& request, const OrderBasis& basis) {
  if (basis.mixture.empty()) return resolve_order(request);
  return resolve_mixture({.order = request, .parts = basis.mixture});
}

}  // namespace

Result<OrderOptions> resolve_order(const OrderOptions& request, const OrderBasis& basis) {
  OrderOptions filled = request;
  if (basis.mixture.empty()) {
    if (filled.sample_count == 0) filled.sample_count = basis.sample_count;
    if (filled.deal_samples == 0) filled.deal_samples = basis.global_batch_size;
  }
  STOKER_ASSIGN(OrderOptions resolved, resolve(filled, basis));
  if (request.shuffle == Shuffle::block && request.block_samples == 0)
    resolved.block_samples = choose_block_samples(
        {.sample_count = std::min(resolved.sample_count, basis.whole_count_min),
         .sample_bytes = basis.sample_bytes,
         .lanes = resolved.lanes});
  return resolved;
}

std::uint64_t mean_sample_bytes(std::span<const LoaderPart> parts) {
  if (!parts.empty() && parts.front().row_bytes() != 0) return parts.front().row_bytes();
  std::uint64_t total = 0;
  std::uint64_t count = 0;
  for (const LoaderPart& part : parts) {
    for (const IndexedShard& shard : part.dataset->index().shards())
      total += shard.plain_size_bytes;
    count += part.dataset->sample_count();
  }
  return total / std::max<std::uint64_t>(count, 1);
}

Result<OrderOptions> resolve_order(const LoaderRunOptions& options) {
  if (options.datasets.size() != 1 || !options.datasets.front())
    return Status(Code::invalid_argument, "order: the default order needs exactly one dataset");
  LoaderPart part{.dataset = options.datasets.front()};
  if (!options.windows.empty()) part.windows = options.windows.front();
  if (!options.packs.empty()) part.packs = options.packs.front();
  return resolve_order(options.cursor.order, {.sample_count = part.whole_count(),
                                              .global_batch_size = options.cut.global_batch_size,
                                              .sample_bytes = mean_sample_bytes({&part, 1}),
                                              .whole_count_min = part.whole_count()});
}

}  // namespace stoker
