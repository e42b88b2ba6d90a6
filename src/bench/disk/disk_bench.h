#pragma once

#include <cstddef>
#include <functional>
#include <stop_token>
#include <string>

#include "bench/disk/disk_case.h"
#include "bench/disk/disk_report.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// What is about to happen, for people who wait.
struct Progress {
  std::size_t step = 0;  ///< From 0.
  std::size_t step_count = 0;
  std::string what = {};  ///< "random read 4 KiB, depth 32, direct, cold"
};
using ProgressSink = std::function<void(const Progress&)>;

/// Measures the disk under `options.path`: every case of make_disk_cases(), each bounded in bytes
/// and time. Scratch files are gone on return, whatever it is.
///
/// A policy that the filesystem refuses is a skipped result, unless it is the one asked for. Fails
/// with `invalid_argument` for options that make no sense, `no_space` before anything is written if
/// there is too little room, `cancelled` when `stop` fires: partial results are not results.
Result<DiskReport> run_disk_bench(const DiskBenchOptions& options, FileOps& ops,
                                  const ProgressSink& progress, const std::stop_token& stop);

}  // namespace stoker
