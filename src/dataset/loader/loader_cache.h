#pragma once

#include <memory>
#include <optional>
#include <span>

#include "dataset/loader/loader_plan.h"
#include "dataset/shard_cache/epoch_bytes.h"
#include "dataset/shard_cache/order_forecast.h"

namespace stoker::internal {

/// What the runs of an order read through a cache; `share` is that of this machine. Nothing if no
/// dataset has a cache.
std::optional<EpochQuestion> cache_question(
    std::span<const std::shared_ptr<const ShardDataset>> datasets, const SampleOrder& order,
    Shuffle shuffle, double share);

/// Tells the cache of a run's datasets its order, if they have one, and chooses what is fetched as
/// one. Returns where to report how far the run has come; null without a cache. Orders of tokens
/// are not announced: their chunks are evicted by last use.
std::shared_ptr<OrderProgress> announce_to_cache(const LoaderPlan& plan);

}  // namespace stoker::internal
