#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/disk/cache_state.h"
#include "bench/disk/disk_bench.h"
#include "io/engine/engine.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct CheckpointBenchOptions {
  static constexpr std::uint64_t kSizeBytesMin = std::uint64_t{1} << 20;

  std::string path = ".";
  std::uint64_t size_bytes = std::uint64_t{4} << 30;  ///< Total size of the tensors.
  std::uint32_t save_count = 3;
  EngineKind engine = EngineKind::automatic;  ///< For saves and restores.
};

/// One save.
struct SaveSample {
  nanoseconds blocked{0};  ///< Duration of save(): the copy, while training waits.
  nanoseconds durable{0};  ///< From the call until the checkpoint survives a power cut.
};

/// One restore.
struct RestoreSample {
  CacheState state = CacheState::not_applicable;  ///< As measured, not as requested.
  std::string note = {};                          ///< Why it differs from the request.
  nanoseconds elapsed{0};
};

struct CheckpointReport {
  std::string path = {};
  std::string filesystem = {};
  std::uint64_t size_bytes = 0;  ///< Total size of the tensors.
  std::uint64_t tensor_count = 0;
  std::vector<SaveSample> saves = {};  ///< The first includes allocating the staging memory.
  RestoreSample cold = {};
  RestoreSample warm = {};

  /// The medians of the saves after the first; with one save, its own values.
  nanoseconds median_blocked() const;
  nanoseconds median_durable() const;
};

/// Saves host tensors, every page of which changes between saves, with a CheckpointSaver below
/// `options.path`. Then restores the last checkpoint twice, with an empty and with a full page
/// cache, and compares it with the saved tensors. Needs twice the size in memory and on disk. Its
/// files are removed before it returns, with or without an error; after a SIGKILL the next run
/// removes them.
///
/// `invalid_argument` for a size that is too small, `no_space` before anything is written if there
/// is too little room on disk or in memory, `cancelled` if `stop` is requested, `corrupt` if a
/// restore gave other bytes.
Result<CheckpointReport> run_checkpoint_bench(const CheckpointBenchOptions& options, FileOps& ops,
                                              const ProgressSink& progress,
                                              const std::stop_token& stop);

}  // namespace stoker
