#include "cli/loader/stream_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/line_text.h"
#include "cli/work_progress.h"
#include "formats/json/strict_json.h"
#include "stoker/units.h"

namespace stoker::cli {
namespace {

double seconds_of(nanoseconds duration) {
  return std::chrono::duration<double>(duration).count();
}

std::string_view end_name(StreamEnd end) {
  switch (end) {
    case StreamEnd::complete: return "complete";
    case StreamEnd::max_batches: return "max_batches";
    case StreamEnd::interrupted: break;
  }
  return "interrupted";
}

std::string_view worst_stage(const LoaderStats& stats) {
  const auto worst = std::ranges::max_element(stats.waited_in) - stats.waited_in.begin();
  return loader_stage_name(static_cast<LoaderStage>(worst));
}

/// Returns the share of time spent waiting, and what it means.
std::string explain_wait(const PlannedRun& plan, const LoaderStats& stats) {
  if (plan.step_time.count() == 0)
    return fmt::format("mostly in {} (taken as fast as they came: --step-ms shows stalls)",
                       worst_stage(stats));
  const double share = 100 * stats.stall_share();
  return share < 0.5 ? fmt::format("{:.1f} % of the time: storage is ahead", share)
                     : fmt::format("{:.1f} % of the time, mostly in {}", share, worst_stage(stats));
}

Json fetch_json(const FetchCounters& fetch) {
  return {{"page_cache_reads", fetch.page_cache_reads},
          {"page_cache_bytes", fetch.page_cache_bytes},
          {"buffered_reads", fetch.buffered_reads},
          {"buffered_bytes", fetch.buffered_bytes},
          {"direct_reads", fetch.direct_reads},
          {"direct_bytes", fetch.direct_bytes},
          {"drop_behind_reads", fetch.drop_behind_reads},
          {"drop_behind_bytes", fetch.drop_behind_bytes},
          {"inflated_bytes", fetch.inflated_bytes},
          {"checked_bytes", fetch.checked_bytes}};
}

Json cache_json(const CacheStats& cache) {
  return {{"hits", cache.hits},
          {"hit_bytes", cache.hit_bytes},
          {"fetches", cache.fetches},
          {"fetched_bytes", cache.fetched_bytes},
          {"passes", cache.passes},
          {"passed_bytes", cache.passed_bytes},
          {"healed", cache.healed},
          {"waits", cache.waits},
          {"evicted", cache.evicted},
          {"failures", cache.failures},
          {"used_bytes", cache.used_bytes}};
}

Json waits_json(const LoaderStats& stats) {
  Json stages = Json::object();
  for (std::size_t i = 0; i < kLoaderStages; ++i)
    stages[std::string(loader_stage_name(static_cast<LoaderStage>(i)))] =
        stats.waited_in[i].count();
  return stages;
}

}  // namespace

double page_cache_share(const FetchCounters& fetch) noexcept {
  const std::uint64_t all =
      fetch.page_cache_bytes + fetch.buffered_bytes + fetch.direct_bytes + fetch.drop_behind_bytes;
  return all == 0 ? 0 : static_cast<double>(fetch.page_cache_bytes) / static_cast<double>(all);
}

std::uint64_t samples_per_second(const LoaderStats& stats) noexcept {
  return bytes_per_second(stats.samples, stats.elapsed);  // works for any count
}

std::string render_stream_text(const PlannedRun& plan, const StreamReport& report) {
  const LoaderStats& stats = report.stats;
  const Cursor& at = report.cursor;
  std::string text = fmt::format("{}: {}\n", plan.name, describe_dataset(*plan.dataset));
  const bool has_rows = plan.rows.tokens != 0;
  if (has_rows) text += fmt::format("  rows     {}\n", describe_rows(plan.rows));
  if (stats.batches == 0) {
    text += report.batch_count == 0
                ? fmt::format("  nothing is left: the cursor is at the end, epoch {}\n", at.epoch)
                : "  no batch was received\n";
    return text;
  }
  text += fmt::format(
      "  batches  {}{} of {}, {} order, seed {}\n", stats.batches,
      report.batch_count && report.end != StreamEnd::complete
          ? fmt::format(" of {}", *report.batch_count)
          : "",
      counted(plan.options.cut.global_batch_size / plan.options.cut.world_size, "sample"),
      at.order.shuffle == Shuffle::off ? "stored" : shuffle_name(at.order.shuffle), at.order.seed);
  text += fmt::format("  samples  {} in {}: {}/s, {}\n", stats.samples,
                      format_duration(stats.elapsed), format_count(samples_per_second(stats)),
                      format_rate(bytes_per_second(stats.bytes, stats.elapsed)));
  if (has_rows)
    text += fmt::format("  tokens   {}/s\n",
                        format_count(samples_per_second(stats) * plan.rows.tokens));
  text += fmt::format("  wait     p50 {}, p99 {}, most {}; {}\n",
                      format_duration(stats.wait.quantile(0.5)),
                      format_duration(stats.wait.quantile(0.99)), format_duration(stats.wait.max()),
                      explain_wait(plan, stats));
  text += fmt::format("  with     {}, depth {}, policy {}; {:.0f} % came from the page cache\n",
                      counted(stats.threads, "thread"), stats.depth, cache_policy_name(plan.policy),
                      100 * page_cache_share(stats.fetch));
  if (report.cache)
    text += fmt::format(
        "  cache    {} of hits, {} fetched, {} read past it; {} in use\n",
        format_bytes(report.cache->hit_bytes), format_bytes(report.cache->fetched_bytes),
        format_bytes(report.cache->passed_bytes), format_bytes(report.cache->used_bytes));
  if (stats.unchecked > 0)
    text += plan.rows.tokens > 0
                ? fmt::format(
                      "  checks   {} unchecked: parts of documents have no checksum; "
                      "`stoker verify` checks whole ones\n",
                      counted(stats.unchecked, "row"))
                : fmt::format("  checks   {} unchecked (stoker index --checksums)\n",
                              counted(stats.unchecked, "sample"));
  return text + fmt::format("  cursor   epoch {}, position {} of {}\n", at.epoch, at.position,
                            at.order.sample_count);
}

std::string render_stream_json(const PlannedRun& plan, const StreamReport& report) {
  const LoaderStats& stats = report.stats;
  const BatchCutOptions& cut = plan.options.cut;
  const double seconds = seconds_of(stats.elapsed);
  const auto rate = [&](std::uint64_t count) {
    return seconds > 0 ? static_cast<double>(count) / seconds : 0.0;
  };
  Json document = {{"dataset", plan.name},
                   {"end", end_name(report.end)},
                   {"batch_size", cut.global_batch_size / cut.world_size},
                   {"rank", cut.rank},
                   {"world_size", cut.world_size},
                   {"step_ms", 1e3 * seconds_of(plan.step_time)},
                   {"samples", stats.samples},
                   {"batches", stats.batches},
                   {"batch_count", nullptr},
                   {"bytes", stats.bytes},
                   {"seconds", seconds},
                   {"samples_per_s", rate(stats.samples)},
                   {"bytes_per_s", rate(stats.bytes)},
                   {"wait_p50_ns", stats.wait.quantile(0.5).count()},
                   {"wait_p99_ns", stats.wait.quantile(0.99).count()},
                   {"wait_max_ns", stats.wait.max().count()},
                   {"waited_ns", stats.waited.count()},
                   {"stall_share", stats.stall_share()},
                   {"waited_in_ns", waits_json(stats)},
                   {"threads", stats.threads},
                   {"depth", stats.depth},
                   {"policy", cache_policy_name(plan.policy)},
                   {"memory_bytes", stats.memory_bytes},
                   {"blocks", stats.blocks},
                   {"unchecked", stats.unchecked},
                   {"fetch", fetch_json(stats.fetch)},
                   {"cursor", nullptr}};
  if (Result<Json> cursor = parse_strict_json(format_cursor(report.cursor), "cursor"); cursor.ok())
    document["cursor"] = *std::move(cursor);
  if (report.cache) document["cache"] = cache_json(*report.cache);
  if (report.batch_count) document["batch_count"] = *report.batch_count;
  if (plan.rows.tokens != 0)
    document["rows"] = {{"kind", plan.rows.is_packs ? "packs" : "windows"},
                        {"count", plan.rows.count},
                        {"tokens", plan.rows.tokens},
                        {"dtype", dtype_name(plan.rows.dtype)},
                        {"tokens_per_s", rate(stats.samples * plan.rows.tokens)}};
  return to_line(document) + "\n";
}

}  // namespace stoker::cli
