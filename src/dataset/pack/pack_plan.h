/// \file
/// Which samples go to which shard. This is decided before the first byte is written, so that
/// threads and tasks pack shards independently, and a restart finds the same plan and continues.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/input/input.h"
#include "io/files/file_ops.h"
#include "stoker/dtype.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kShardBytesDefault = std::uint64_t{256} << 20;

struct PackPlanOptions {
  /// A ShardFormat::written_as name.
  std::string format = "tar";
  std::uint64_t samples_per_shard = 0;  ///< 0: limited by size only.
  std::uint64_t shard_bytes = kShardBytesDefault;
  std::optional<std::uint64_t> shuffle_seed = {};  ///< Nothing: the order of the input.
  std::string prefix = "shard";                    ///< Of the shards' names. MDS has fixed names.
};

/// The part of a plan that is stored in "<dst>/.stoker/pack-plan.json".
struct PackJob {
  std::string hash;  ///< Hash of the input's list of samples and all options.
  std::string format;
  std::string prefix;
  std::uint64_t shard_count = 0;
  std::uint64_t sample_count = 0;
  std::vector<std::string> extra_files;  ///< Names of files next to the shards: "classes.json".
  std::string dtype = {};  ///< For counted and shard001, which do not store it; else empty.

  /// "shard-000017.tar", "shard.00017.mds", "shard-000017.tfrecord"; "shard-000017.bin"
  /// for arrays.
  std::string shard_name(std::uint64_t shard) const;
  /// "shard-000017.idx", for Megatron.
  std::string sidecar_name(std::uint64_t shard) const;
  bool operator==(const PackJob&) const = default;
};

struct PackPlan {
  PackJob job;
  std::vector<std::uint64_t> order;  ///< Sample numbers in the input.
  std::vector<std::uint64_t> cuts;   ///< Shard i has order[cuts[i]] up to order[cuts[i + 1] - 1].

  std::span<const std::uint64_t> samples_of(std::uint64_t shard) const {
    return std::span(order).subspan(cuts[shard], cuts[shard + 1] - cuts[shard]);
  }
};

/// Whether samples of that written format are arrays of numbers.
bool is_token_format(std::string_view format) noexcept;

/// `invalid_argument` for options that are invalid or do not fit the format.
Result<PackPlan> make_pack_plan(const PackInput& input, const PackPlanOptions& options);

/// Reads the job of a destination directory; `not_found` if it has none.
Result<PackJob> read_pack_job(const PathAt& directory);
Status publish_pack_job(FileOps& ops, const PathAt& directory, const PackJob& job);
/// Best effort.
void remove_pack_job(FileOps& ops, const PathAt& directory);

/// A permutation of 0 .. count-1 that depends only on `count` and `seed`.
std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed);

}  // namespace stoker
