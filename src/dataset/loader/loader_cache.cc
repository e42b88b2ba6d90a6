#include "dataset/loader/loader_cache.h"

#include <algorithm>

namespace stoker::internal {

std::optional<EpochQuestion> cache_question(
    std::span<const std::shared_ptr<const ShardDataset>> datasets, const SampleOrder& order,
    Shuffle shuffle, double share) {
  EpochQuestion question{.shuffle = shuffle, .share = share};
  double unit_bytes = 0;
  for (const std::shared_ptr<const ShardDataset>& dataset : datasets) {
    if (!dataset->cache()) continue;
    const DatasetUnits& units = *dataset->cache_units();
    question.cache_bytes = dataset->cache()->options().size_bytes;
    question.dataset_bytes += units.dataset_bytes();
    question.sample_count += dataset->sample_count();
    unit_bytes += units.mean_record_unit_bytes() * static_cast<double>(dataset->sample_count());
  }
  if (question.cache_bytes == 0) return std::nullopt;
  if (question.sample_count > 0)
    question.record_unit_bytes = unit_bytes / static_cast<double>(question.sample_count);
  // A list of samples may name them in any order.
  if (!order.next_use(0, 0, order.at(0, 0)) && shuffle == Shuffle::off)
    question.shuffle = Shuffle::global;
  return question;
}

std::shared_ptr<OrderProgress> announce_to_cache(const LoaderPlan& plan) {
  const LoaderRunOptions& options = plan.options;
  const std::optional<EpochQuestion> question =
      cache_question(options.datasets, *options.order, options.cursor.order.shuffle, 1);
  if (!question) return nullptr;
  const FetchUnit unit = expected_bytes(*question).unit;
  AnnouncedOrder announced{.place = {.cursor = options.cursor,
                                     .rank = options.cut.rank,
                                     .world_size = options.cut.world_size},
                           .order = options.order,
                           .datasets = {}};
  std::shared_ptr<ShardCache> cache;
  for (const std::shared_ptr<const ShardDataset>& dataset : options.datasets) {
    announced.datasets.emplace_back(dataset->cache_units());
    if (!dataset->cache()) continue;
    cache = dataset->cache();
    dataset->cache_units()->use(unit);
  }
  return plan.is_tokens() ? nullptr : cache->announce(std::move(announced));
}

}  // namespace stoker::internal
