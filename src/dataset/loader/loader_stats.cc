#include "dataset/loader/loader_stats.h"

#include <algorithm>

namespace stoker {

std::array<nanoseconds, kLoaderStages> attribute_wait(const StageTimes& times, Deadline from,
                                                      Deadline to) {
  std::array<nanoseconds, kLoaderStages> out{};
  Deadline at = from;
  for (std::size_t stage = 0; stage < kLoaderStages && at < to; ++stage) {
    // A stage lasts until the next one begins; the last one until the end of the wait.
    const Deadline end = stage + 1 < kLoaderStages ? std::min(times.began[stage + 1], to) : to;
    if (end <= at) continue;
    out[stage] = end - at;
    at = end;
  }
  return out;
}

void add_counters(FetchCounters& sum, const FetchCounters& more) noexcept {
  sum.record_count += more.record_count;
  sum.record_bytes += more.record_bytes;
  sum.failure_count += more.failure_count;
  sum.checked_bytes += more.checked_bytes;
  sum.page_cache_reads += more.page_cache_reads;
  sum.page_cache_bytes += more.page_cache_bytes;
  sum.buffered_reads += more.buffered_reads;
  sum.buffered_bytes += more.buffered_bytes;
  sum.direct_reads += more.direct_reads;
  sum.direct_bytes += more.direct_bytes;
  sum.drop_behind_reads += more.drop_behind_reads;
  sum.drop_behind_bytes += more.drop_behind_bytes;
  sum.store_reads += more.store_reads;
  sum.store_bytes += more.store_bytes;
  sum.inflated_bytes += more.inflated_bytes;
  sum.residency_looks += more.residency_looks;
  sum.plan_time += more.plan_time;
  sum.read_time += more.read_time;
  sum.wait_time += more.wait_time;
  sum.store_time += more.store_time;
}

}  // namespace stoker
