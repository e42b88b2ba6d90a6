#pragma once

#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "bench/cliff/cliff.h"
#include "bench/disk/disk_bench.h"
#include "io/engine/engine.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct CliffBenchOptions {
  static constexpr std::uint64_t kBytesMin = std::uint64_t{64} << 20;  ///< 16 windows of one block.
  static constexpr std::uint64_t kBytesDefaultMax = std::uint64_t{64} << 30;
  static constexpr std::uint64_t kWindowBytesMax = std::uint64_t{256} << 20;

  std::string path = ".";
  std::uint64_t bytes_max = 0;  ///< 0: a quarter of the free space, up to 64 GiB.
  EngineKind engine = EngineKind::automatic;
  CachePolicy policy = CachePolicy::automatic;
};

struct CliffReport {
  std::string path = {};
  std::string filesystem = {};
  std::string engine = {};
  std::string io_path = {};
  std::uint64_t bytes_max = 0;
  std::uint64_t window_bytes = 0;
  std::vector<RateWindow> windows = {};
  std::optional<Cliff> cliff = {};

  std::uint64_t bytes_written() const noexcept;
};

/// Writes incompressible data to one new file, window by window, until the rate has dropped and
/// stayed low for 16 windows, or `bytes_max` are written. The file is removed before it returns.
///
/// Fails in the same way as run_disk_bench().
Result<CliffReport> run_cliff_bench(const CliffBenchOptions& options, FileOps& ops,
                                    const ProgressSink& progress, const std::stop_token& stop);

}  // namespace stoker
