#include "bench/cliff/cliff_bench.h"

#include <fcntl.h>

#include <algorithm>
#include <memory>

#include "bench/bench_engine.h"
#include "bench/disk/workload.h"
#include "bench/scratch.h"
#include "io/engine/buffer_pool.h"
#include "io/files/filesystem.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::uint32_t kBlockBytes = std::uint32_t{4} << 20;
constexpr std::uint32_t kDepth = 8;
constexpr std::uint64_t kWindowCountMin = 64;  // of a complete run
constexpr std::size_t kWindowsToBeSure = 16;

/// Returns the requested number of bytes, or a default that leaves most of the free space.
Result<std::uint64_t> choose_bytes_max(const CliffBenchOptions& options) {
  if (options.bytes_max != 0) return options.bytes_max;
  STOKER_ASSIGN(const std::uint64_t free_bytes, free_bytes_of(options.path));
  return std::clamp(free_bytes / 4, CliffBenchOptions::kBytesMin,
                    CliffBenchOptions::kBytesDefaultMax);
}

std::uint64_t choose_window_bytes(std::uint64_t bytes_max) {
  const std::uint64_t wanted = bytes_max / kWindowCountMin / kBlockBytes * kBlockBytes;
  return std::clamp<std::uint64_t>(wanted, kBlockBytes, CliffBenchOptions::kWindowBytesMax);
}

bool is_sure(const CliffReport& report) {
  return report.cliff && report.windows.size() - report.cliff->window >= kWindowsToBeSure;
}

}  // namespace

std::uint64_t CliffReport::bytes_written() const noexcept {
  std::uint64_t total = 0;
  for (const RateWindow& window : windows) total += window.bytes;
  return total;
}

Result<CliffReport> run_cliff_bench(const CliffBenchOptions& options, FileOps& ops,
                                    const ProgressSink& progress, const std::stop_token& stop) {
  CliffReport report{.path = options.path};
  STOKER_ASSIGN(report.bytes_max, choose_bytes_max(options));
  if (report.bytes_max < CliffBenchOptions::kBytesMin)
    return Status(Code::invalid_argument, "--bytes " + format_bytes(report.bytes_max) +
                                              " is too small: use at least " +
                                              format_bytes(CliffBenchOptions::kBytesMin));
  STOKER_TRY(check_room(options.path, report.bytes_max, "--bytes"));
  report.window_bytes = choose_window_bytes(report.bytes_max);

  STOKER_ASSIGN(ScratchFile scratch,
                ScratchFile::create(ops, options.path, {.policy = options.policy}));
  STOKER_ASSIGN(FilesystemKind kind, filesystem_of(scratch.file().buffered_fd()));
  report.filesystem = std::move(kind.name);
  report.io_path = io_path_name(scratch.file().write_path());
  STOKER_ASSIGN(BufferPool pool,
                BufferPool::make({.budget_bytes = std::size_t{kBlockBytes} * kDepth}));
  STOKER_ASSIGN(const BenchEngine made, make_bench_engine(options.engine, kDepth));
  const std::unique_ptr<Engine>& engine = made.engine;
  static_cast<void>(engine->register_buffers(pool.memory()));  // optional
  report.engine = engine_kind_name(engine->caps().kind);

  const std::uint64_t window_count = report.bytes_max / report.window_bytes;
  for (std::uint64_t i = 0; i < window_count && !is_sure(report); ++i) {
    if (progress)
      progress({.step = i,
                .step_count = window_count,
                .what = report.windows.empty()
                            ? "writing"
                            : "writing at " + format_rate(static_cast<std::uint64_t>(
                                                  report.windows.back().bytes_per_s()))});
    STOKER_ASSIGN(const Measurement found, run_workload(*engine, scratch.file(), pool,
                                                        {.op = Op::write,
                                                         .offset_bytes = i * report.window_bytes,
                                                         .range_bytes = report.window_bytes,
                                                         .block_bytes = kBlockBytes,
                                                         .depth = kDepth},
                                                        stop));
    report.windows.push_back({.bytes = found.bytes, .elapsed = found.elapsed});
    report.cliff = find_cliff(report.windows);
  }
  return report;
}

}  // namespace stoker
