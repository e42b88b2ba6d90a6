/// \file
/// `stoker pack`: from files to shards, an index and a manifest.
#pragma once

#include <cstdint>
#include <functional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/input/input.h"
#include "dataset/pack/pack_plan.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct PackProgress {
  std::uint64_t samples_done = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t shards_done = 0;
  std::uint64_t shard_count = 0;
  std::uint64_t bytes_done = 0;     ///< Packed by this run.
  std::uint64_t samples_found = 0;  ///< Of samples_done, those in shards that were finished before.
};

struct PackOptions {
  PackPlanOptions plan = {};
  /// This run packs every `task_count`-th shard, from `task` on. More than one task need a
  /// merge_pack() when all are done.
  std::uint64_t task = 0;
  std::uint64_t task_count = 1;
  unsigned thread_count = 0;  ///< Shards at a time; 0: one for each core.
  /// Called from any thread, one call at a time, about ten times a second.
  std::function<void(const PackProgress&)> progress = {};
  std::stop_token stop = {};
};

struct PackReport {
  std::string format;
  std::uint64_t shard_count = 0;  ///< Of this run's task.
  std::uint64_t sample_count = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t shards_found = 0;  ///< Finished by an earlier run.
  bool is_complete = false;        ///< The manifest is written: the dataset is finished.
};

/// Packs the samples of `source` into `directory`, which is made if it is not there, is empty, or
/// holds what an earlier run of the same job left: finished shards are then kept as they are.
/// `already_exists` if it holds anything else, `unavailable` while another run works on it. After a
/// failure no file has a final name that is not whole.
Result<PackReport> pack(FileOps& ops, const PackInput& source, const std::string& directory,
                        const PackOptions& options);

/// Joins the tasks of one job: index, manifest, and the end of the job's records. `unavailable`
/// names the first shard that is missing.
Result<PackReport> merge_pack(FileOps& ops, const std::string& directory);

}  // namespace stoker
