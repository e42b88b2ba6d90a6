#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/index/index.h"
#include "dataset/pack/verify.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/shard_source.h"
#include "stoker/status.h"

namespace stoker::internal {

/// What one thread found.
struct ShardVerdict {
  std::uint64_t sample_count = 0;
  std::vector<VerifyProblem> problems;
};

struct VerifyCounter {
  std::atomic<std::uint64_t> bytes{0};  ///< Relaxed: for people to look at.
  std::stop_token stop = {};
};

/// Compares a file with what the manifest says. True if it is the same. A Status only if stopped.
Result<bool> verify_file(ObjectStore& store, const std::string& path, const ManifestFile& expected,
                         VerifyCounter& counter, std::vector<VerifyProblem>& problems);

/// Checks every sample of one shard: where the index says they are, with their checksums, or
/// without an index where a scan finds them.
Status verify_samples(const ShardSource& source, std::size_t shard, const Index* index,
                      VerifyCounter& counter, ShardVerdict& verdict);

}  // namespace stoker::internal
