#include "bench/disk/disk_verdict.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "stoker/units.h"

namespace stoker {
namespace {

/// Minimum factor for reporting that shards are faster than small files.
constexpr double kSlowerMin = 1.5;

std::uint64_t rounded(double value) {
  return value > 0 ? static_cast<std::uint64_t>(value) : 0;
}

std::string duration_text(std::uint64_t count_ns) {
  return format_duration(nanoseconds(static_cast<std::int64_t>(count_ns)));
}

/// Prefers cold to warm results, then small blocks to large ones (except for sequential transfers),
/// then the highest rate: cold reads are typical of large datasets, small ones of random samples.
bool is_better(const DiskResult& a, const DiskResult& b) {
  const bool a_cold = a.cache != CacheState::warm;
  const bool b_cold = b.cache != CacheState::warm;
  if (a_cold != b_cold) return a_cold;
  if (a.kind != CaseKind::seq_read && a.kind != CaseKind::seq_write &&
      a.block_bytes != b.block_bytes)
    return a.block_bytes < b.block_bytes;
  return a.bytes_per_s > b.bytes_per_s;
}

const DiskResult* find_best(const DiskReport& report, CaseKind kind) {
  const DiskResult* best = nullptr;
  for (const DiskResult& result : report.results) {
    if (result.kind != kind || !result.skipped.empty()) continue;
    if (best == nullptr || is_better(result, *best)) best = &result;
  }
  return best;
}

/// "2.1 GB/s in order, 19k IOPS of 4 KiB (cold, direct)"
std::string reading(const DiskReport& report) {
  const DiskResult* const in_order = find_best(report, CaseKind::seq_read);
  const DiskResult* const random = find_best(report, CaseKind::rand_read);
  const auto policy = [](const DiskResult& result) { return result.policy.name(); };
  const auto cache = [](const DiskResult& result) { return cache_state_name(result.cache); };
  const auto rate = [](const DiskResult& result) {
    return format_rate(rounded(result.bytes_per_s)) + " in order";
  };
  const auto iops = [](const DiskResult& result) {
    return fmt::format("{} IOPS of {}", format_count(rounded(result.iops)),
                       format_bytes(result.block_bytes));
  };
  if (in_order == nullptr && random == nullptr) return "";
  if (random == nullptr)
    return fmt::format("{} ({}, {})", rate(*in_order), cache(*in_order), policy(*in_order));
  if (in_order == nullptr)
    return fmt::format("{} ({}, {})", iops(*random), cache(*random), policy(*random));
  if (in_order->cache != random->cache)
    return fmt::format("{} ({}), {} ({})", rate(*in_order), cache(*in_order), iops(*random),
                       cache(*random));
  if (in_order->policy == random->policy)
    return fmt::format("{}, {} ({}, {})", rate(*in_order), iops(*random), cache(*random),
                       policy(*random));
  return fmt::format("{} ({}), {} ({}), {}", rate(*in_order), policy(*in_order), iops(*random),
                     policy(*random), cache(*random));
}

std::string writing(const DiskReport& report) {
  std::vector<std::string> parts;
  if (const DiskResult* best = find_best(report, CaseKind::seq_write))
    parts.push_back(fmt::format("{} durable ({})", format_rate(rounded(best->bytes_per_s)),
                                best->policy.name()));
  if (const DiskResult* best = find_best(report, CaseKind::fsync))
    parts.push_back(fmt::format("an fsync takes {} (p99 {})", duration_text(best->p50_ns),
                                duration_text(best->p99_ns)));
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string small_files(const DiskReport& report) {
  const DiskResult* const files = find_best(report, CaseKind::small_read);
  if (files == nullptr) return "";
  std::string text = fmt::format("{} small files/s of {} ({})", format_count(rounded(files->iops)),
                                 format_bytes(files->block_bytes), cache_state_name(files->cache));
  const DiskResult* const in_order = find_best(report, CaseKind::seq_read);
  if (in_order == nullptr || files->bytes_per_s <= 0) return text;
  const double factor = in_order->bytes_per_s / files->bytes_per_s;
  if (factor >= kSlowerMin) text += fmt::format("; shards are {:.0f} times faster", factor);
  return text;
}

}  // namespace

std::vector<std::string> disk_verdict(const DiskReport& report) {
  std::vector<std::string> lines;
  const auto add = [&](const char* title, const std::string& text) {
    if (!text.empty()) lines.push_back(fmt::format("{:<7} {}", title, text));
  };
  add("reads", reading(report));
  add("writes", writing(report));
  add("files", small_files(report));
  return lines;
}

}  // namespace stoker
