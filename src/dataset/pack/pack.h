/// \file
/// `stoker pack`: from files to shards, an index and a manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/input/input.h"
#include "dataset/pack/field_losses.h"
#include "dataset/pack/pack_plan.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct PackProgress {
  std::uint64_t samples_done = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t shards_done = 0;
  std::uint64_t shard_count = 0;
  std::uint64_t bytes_done = 0;     ///< Bytes packed by this run.
  std::uint64_t samples_found = 0;  ///< Part of samples_done: in shards finished by earlier runs.
};

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

struct PackReport {
  std::string format;
  std::uint64_t shard_count = 0;  ///< Of this run's task.
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t shards_found = 0;  ///< Finished by an earlier run.
  bool is_complete = false;        ///< The manifest was written: the dataset is finished.
  /// See remarks_on(). Empty if an earlier run has finished the job.
  FieldLosses losses = {};
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
