#include "loader_report.h"

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "raise.h"

namespace nb = nanobind;

namespace stoker::python {
namespace {

double seconds(nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

nb::dict report_fetch(const FetchCounters& fetch) {
  nb::dict out;
  out["record_count"] = fetch.record_count;
  out["record_bytes"] = fetch.record_bytes;
  out["failure_count"] = fetch.failure_count;
  out["checked_bytes"] = fetch.checked_bytes;
  out["page_cache_reads"] = fetch.page_cache_reads;
  out["page_cache_bytes"] = fetch.page_cache_bytes;
  out["buffered_reads"] = fetch.buffered_reads;
  out["buffered_bytes"] = fetch.buffered_bytes;
  out["direct_reads"] = fetch.direct_reads;
  out["direct_bytes"] = fetch.direct_bytes;
  out["drop_behind_reads"] = fetch.drop_behind_reads;
  out["drop_behind_bytes"] = fetch.drop_behind_bytes;
  out["store_reads"] = fetch.store_reads;
  out["store_bytes"] = fetch.store_bytes;
  out["inflated_bytes"] = fetch.inflated_bytes;
  out["plan_s"] = seconds(fetch.plan_time);
  out["read_s"] = seconds(fetch.read_time);
  out["wait_s"] = seconds(fetch.wait_time);
  out["store_s"] = seconds(fetch.store_time);
  return out;
}

}  // namespace

nb::dict report_stats(const LoaderStats& stats) {
  nb::dict waited_in;
  for (std::size_t i = 0; i < kLoaderStages; ++i) {
    const std::string_view name = loader_stage_name(static_cast<LoaderStage>(i));
    waited_in[nb::str(name.data(), name.size())] = seconds(stats.waited_in[i]);
  }
  nb::dict out;
  out["batches"] = stats.batches;
  out["samples"] = stats.samples;
  out["bytes"] = stats.bytes;
  out["unchecked"] = stats.unchecked;
  out["replaced"] = stats.replaced;
  out["spare_bytes"] = stats.spare_bytes;
  out["waited_s"] = seconds(stats.waited);
  out["waited_in_s"] = waited_in;
  out["held_warnings"] = stats.held_warnings;
  out["held_errors"] = stats.held_errors;
  out["threads"] = stats.threads;
  out["depth"] = stats.depth;
  out["memory_bytes"] = stats.memory_bytes;
  out["leased_bytes"] = stats.leased_bytes;
  out["fetch"] = report_fetch(stats.fetch);
  return out;
}

void raise_for_batch(const Status& status) {
  const std::optional<CorruptPlace> place = place_in(status.message());
  raise_if_failed(status, place ? &*place : nullptr);
}

}  // namespace stoker::python
