/// \file
/// Checks every byte of a dataset.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "stoker/api.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

/// A problem with a file, or with a sample in it.
struct VerifyProblem {
  std::string path;
  std::optional<std::uint64_t> offset_bytes = {};  ///< Of the sample.
  std::string key = {};                            ///< Of the sample, if it can be read.
  std::string message;
};

struct VerifyProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t shards_done = 0;
  std::uint64_t shard_count = 0;
};

struct VerifyReport {
  bool has_manifest = false;   ///< If false, sizes and SHA-256 were not checked.
  bool has_checksums = false;  ///< If false, samples were checked only by splitting them.
  std::uint64_t shard_count = 0;
  std::uint64_t sample_count = 0;  ///< Samples checked.
  std::uint64_t size_bytes = 0;
  std::vector<VerifyProblem> problems;  ///< Sorted by path and offset.
};

struct VerifyOptions {
  std::string format = {};           ///< As in DatasetOptions.
  std::optional<Dtype> dtype = {};   ///< As in DatasetOptions.
  std::string cache_directory = {};  ///< May have the index of a read-only dataset.
  unsigned thread_count = 0;         ///< Shards at a time; 0: one per core.
  /// Called from any thread, one call at a time. What it throws ends the call.
  std::function<void(const VerifyProgress&)> progress = {};
  std::stop_token stop = {};
};

/// Compares every file of a directory of shards with the manifest (size, SHA-256) and every sample
/// with its checksum, and splits each sample. Continues after a problem. Fails only if the dataset
/// cannot be examined at all, for example `not_found` or `cancelled`.
///
/// Thread safety: from any thread. Its threads end before it returns.
STOKER_API Result<VerifyReport> verify_dataset(const std::string& directory,
                                               const VerifyOptions& options = {});

}  // namespace stoker
