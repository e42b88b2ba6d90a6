/// \file
/// `stoker verify`: whether a dataset is what was packed, to the last byte.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/shards/shard_source.h"
#include "stoker/status.h"

namespace stoker {

/// One thing that is wrong: a file, or a sample in it.
struct VerifyProblem {
  std::string path;
  std::optional<std::uint64_t> offset_bytes = {};  ///< Of the sample.
  std::string key = {};                            ///< Of the sample, as far as it can be told.
  std::string message;
};

struct VerifyProgress {
  std::uint64_t bytes_done = 0;
  std::uint64_t size_bytes = 0;
  std::uint64_t shards_done = 0;
  std::uint64_t shard_count = 0;
};

struct VerifyOptions {
  ShardSourceOptions source = {};
  std::string cache_directory = {};  ///< Where an index of a dataset that is read-only may be.
  unsigned thread_count = 0;         ///< Shards at a time; 0: one for each core.
  std::function<void(const VerifyProgress&)> progress = {};  ///< From any thread, one at a time.
  std::stop_token stop = {};
};

struct VerifyReport {
  bool has_manifest = false;   ///< Else sizes and SHA-256 were not checked.
  bool has_checksums = false;  ///< Else samples were split, and checked by their format alone.
  std::uint64_t shard_count = 0;
  std::uint64_t sample_count = 0;  ///< Looked at.
  std::uint64_t size_bytes = 0;
  std::vector<VerifyProblem> problems;  ///< Sorted by path and offset.
};

/// Compares every file with the manifest (size, SHA-256) and every sample with its checksum, and
/// splits each sample. Goes on after a problem. A Status is returned only for what keeps it from
/// looking at all: `not_found`, `cancelled`.
Result<VerifyReport> verify_dataset(const std::string& directory,
                                    const VerifyOptions& options = {});

}  // namespace stoker
