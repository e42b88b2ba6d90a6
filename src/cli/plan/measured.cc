#include "cli/plan/measured.h"

#include <fmt/format.h>

#include <algorithm>

#include "bench/disk/disk_bench.h"
#include "cli/bench/command.h"
#include "cli/progress_line.h"

namespace stoker::cli {
namespace {

/// The best rate of one kind of case that does not come from the page cache.
double best_of(const DiskReport& report, CaseKind kind, double DiskResult::* figure) {
  double best = 0;
  for (const DiskResult& result : report.results)
    if (result.kind == kind && result.skipped.empty() && result.cache != CacheState::warm)
      best = std::max(best, result.*figure);
  return best;
}

}  // namespace

Result<std::vector<plan::Setting>> measure_storage(const std::string& directory, Context& context) {
  DiskBenchOptions options{.path = directory,
                           .size_bytes = std::uint64_t{256} << 20,
                           .time_per_case = std::chrono::milliseconds(120),
                           .policy = AccessPolicy{.cache = CachePolicy::automatic},
                           .only = {CaseKind::seq_write, CaseKind::seq_read, CaseKind::rand_read}};
  STOKER_ASSIGN(options.engine, choose_engine(""));
  ProgressLine line(context, false);
  const auto show = [&](const Progress& progress) { line.show(progress); };
  const Result<DiskReport> report = run_disk_bench(options, posix_file_ops(), show, context.stop);
  line.clear();
  if (!report.ok()) return with_advice(report.status()).with_context("--measure");
  std::vector<plan::Setting> settings;
  const auto add = [&](std::string_view name, CaseKind kind, double DiskResult::* figure,
                       double scale, std::string_view unit) {
    const double best = best_of(*report, kind, figure);
    if (best < 1) return;  // skipped here
    settings.push_back(
        {.name = std::string(name),
         .text = fmt::format("{:.5g}{}", best / scale, unit),
         .origin = fmt::format("measured in {}, {}", directory, report->filesystem)});
  };
  add("read_rate", CaseKind::seq_read, &DiskResult::bytes_per_s, 1e6, "MB/s");
  add("write_rate", CaseKind::seq_write, &DiskResult::bytes_per_s, 1e6, "MB/s");
  add("read_iops", CaseKind::rand_read, &DiskResult::iops, 1, "/s");
  return settings;
}

}  // namespace stoker::cli
