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
  std::uint64_t size_bytes = std::uint64_t{4} << 30;  ///< Of all tensors together.
  std::uint32_t save_count = 3;
  EngineKind engine = EngineKind::automatic;  ///< For saves and restores.
};

/// One save.
struct SaveSample {
  nanoseconds blocked{0};  ///< In save(): the copy, for which training stands still.
  nanoseconds durable{0};  ///< From the call until it survives a power cut.
};

/// One restore.
struct RestoreSample {
  CacheState state = CacheState::not_applicable;  ///< What was proved, not what was wished.
  std::string note = {};                          ///< Why it is not as wished.
  nanoseconds elapsed{0};
};

struct CheckpointReport {
  std::string path = {};
  std::string filesystem = {};
  std::uint64_t size_bytes = 0;  ///< Of all tensors together.
  std::uint64_t tensor_count = 0;
  std::vector<SaveSample> saves = {};  ///< The first has to get its staging memory as well.
  RestoreSample cold = {};
  RestoreSample warm = {};

  /// Of the saves after the first, where there are any.
  nanoseconds median_blocked() const;
  nanoseconds median_durable() const;
};

/// Saves host tensors, every page of which changes between saves, with a Checkpointer below
/// `options.path`, then restores the last one past an empty and from a full page cache and compares
/// it with what was saved. Needs twice the size in memory and on disk. What it wrote is gone on
/// return, whatever it is; after a SIGKILL the next run removes it.
///
/// `invalid_argument` for sizes that make no sense, `no_space` before anything is written if there
/// is too little room on disk or in memory, `cancelled` when `stop` fires, `corrupt` if a restore
/// gave other bytes.
Result<CheckpointReport> run_checkpoint_bench(const CheckpointBenchOptions& options, FileOps& ops,
                                              const ProgressSink& progress,
                                              const std::stop_token& stop);

}  // namespace stoker
