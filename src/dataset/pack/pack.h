/// \file
/// `stoker pack`: from files to shards, an index and a manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>

#include "dataset/input/input.h"
#include "dataset/pack/pack_plan.h"
#include "io/files/file_ops.h"
#include "stoker/pack.h"
#include "stoker/status.h"

namespace stoker {

struct PackOptions {
  PackPlanOptions plan = {};
  /// This run packs every `task_count`-th shard, from `task` on. If there is more than one task,
  /// call merge_pack() when all are done.
  std::uint64_t task = 0;
  std::uint64_t task_count = 1;
  unsigned thread_count = 0;  ///< Shards at a time; 0: one per core.
  /// Called from any thread, one call at a time: about ten times a second, and after each shard.
  std::function<void(const PackProgress&)> progress = {};
  std::stop_token stop = {};
};

/// Packs the samples of `input` into `directory`. The directory is created if it does not exist;
/// otherwise it must have no files except hidden ones, or contain what an earlier run of the same
/// job left: finished shards are then kept. `already_exists` if it contains anything else,
/// `unavailable` while another run uses it. After a failure, every file with a final name is
/// complete.
Result<PackReport> pack(FileOps& ops, const PackInput& input, const std::string& directory,
                        const PackOptions& options);

/// Merges the tasks of a job: writes index and manifest, and removes the job's records.
/// `unavailable` if shards are missing; the message names the first.
Result<PackReport> merge_pack(FileOps& ops, const std::string& directory);

}  // namespace stoker
