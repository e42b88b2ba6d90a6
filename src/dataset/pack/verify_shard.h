#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "dataset/index/index.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/shard_source.h"
#include "stoker/status.h"
#include "stoker/verify.h"

namespace stoker::internal {

/// The result for one file or shard.
struct ShardVerdict {
  std::uint64_t sample_count = 0;
  std::vector<VerifyProblem> problems;
};

struct VerifyCounter {
  std::atomic<std::uint64_t> bytes{0};  ///< Relaxed: for display only.
  std::stop_token stop = {};
};

/// Compares a file with its entry in the manifest, and adds problems. Returns true if it matches.
/// Fails only if stopped.
Result<bool> verify_file(ObjectStore& store, const std::string& path, const ManifestFile& expected,
                         VerifyCounter& counter, std::vector<VerifyProblem>& problems);

/// Checks every sample of one shard: located by the index, with its checksums, or by a scan if
/// there is no index. Fails only if stopped.
Status verify_samples(const ShardSource& source, std::size_t shard, const Index* index,
                      VerifyCounter& counter, ShardVerdict& verdict);

}  // namespace stoker::internal
