/// \file
/// Which samples go to which shard, decided before the first byte is written: so that threads and
/// tasks pack shards independently, and a restart finds the same plan and goes on with it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dataset/input/input.h"
#include "formats/dtype.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

inline constexpr std::uint64_t kShardBytesDefault = std::uint64_t{256} << 20;

struct PackPlanOptions {
  /// A name that ShardFormat::written_as has.
  std::string format = "tar";
  std::uint64_t samples_per_shard = 0;  ///< 0: by size alone.
  std::uint64_t shard_bytes = kShardBytesDefault;
  std::optional<std::uint64_t> shuffle_seed = {};  ///< None: in the order of the source.
  std::string prefix = "shard";                    ///< Of the shards' names. MDS has its own.
};

/// The part of a plan that is kept in "<dst>/.stoker/pack-plan.json".
struct PackJob {
  std::string hash;  ///< Of the source's list of samples and of all options.
  std::string format;
  std::string prefix;
  std::uint64_t shard_count = 0;
  std::uint64_t sample_count = 0;
  std::vector<std::string> extra_files;  ///< Names of files beside the shards: "classes.json".
  std::string dtype = {};  ///< Of counted and shard001, which do not say it; else empty.

  /// "shard-000017.tar", "shard.00017.mds", "shard-000017.tfrecord"; "shard-000017.bin"
  /// for arrays.
  std::string shard_name(std::uint64_t shard) const;
  /// "shard-000017.idx", which only tokens have.
  std::string sidecar_name(std::uint64_t shard) const;
  bool operator==(const PackJob&) const = default;
};

struct PackPlan {
  PackJob job;
  std::vector<std::uint64_t> order;  ///< Samples of the source.
  std::vector<std::uint64_t> cuts;   ///< Shard i holds order[cuts[i]] to order[cuts[i + 1]].

  std::span<const std::uint64_t> samples_of(std::uint64_t shard) const {
    return std::span(order).subspan(cuts[shard], cuts[shard + 1] - cuts[shard]);
  }
};

/// Whether samples of the format that is written under that name are arrays of numbers.
bool is_token_format(std::string_view format) noexcept;

/// `invalid_argument` for options that make no sense together.
Result<PackPlan> make_pack_plan(const PackInput& source, const PackPlanOptions& options);

/// The job that a destination directory belongs to; `not_found` if to none.
Result<PackJob> read_pack_job(const PathAt& directory);
Status publish_pack_job(FileOps& ops, const PathAt& directory, const PackJob& job);
/// Best effort.
void remove_pack_job(FileOps& ops, const PathAt& directory);

/// A permutation of 0 .. count-1 that depends on nothing but `seed`.
std::vector<std::uint64_t> shuffled(std::uint64_t count, std::uint64_t seed);

}  // namespace stoker
