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

/// The step that is about to start, for progress displays.
struct Progress {
  std::size_t step = 0;  ///< From 0.
  std::size_t step_count = 0;
  std::string what = {};  ///< "random read 4 KiB, depth 32, direct, cold"
};
using ProgressSink = std::function<void(const Progress&)>;

/// Measures the disk under `options.path`: every case of make_disk_cases(), each limited in bytes
/// and time. Scratch files are removed before it returns, with or without an error.
///
/// A policy that the filesystem refuses gives a skipped result, unless `options.policy` requests
/// it. Fails with `invalid_argument` for invalid options, `no_space` before anything is written if
/// there is too little room, and `cancelled`, without partial results, if `stop` is requested.
Result<DiskReport> run_disk_bench(const DiskBenchOptions& options, FileOps& ops,
                                  const ProgressSink& progress, const std::stop_token& stop);

}  // namespace stoker
