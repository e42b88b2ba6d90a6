/// \file
/// What is known of a finished shard, kept in "<dst>/.stoker/pack/" until all are finished and
/// become one manifest and one index.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "dataset/shards/dataset_manifest.h"
#include "formats/shard_format.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct PackPart {
  std::string plan_hash;
  ManifestShard shard;
  std::vector<ManifestFile> files;  ///< That belong to the shard: Megatron's ".idx".
  std::string mds_index;            ///< An index.json with this shard alone; empty if not MDS.

  bool operator==(const PackPart&) const = default;
};

/// Publishes the records of a shard and their checksums, then the part itself.
Status publish_pack_part(FileOps& ops, const PathAt& directory, const PackPart& part,
                         std::span<const ByteRange> records,
                         std::span<const std::uint32_t> checksums);

/// `not_found` if that shard has none; `corrupt` if it is damaged.
Result<PackPart> read_pack_part(const PathAt& directory, const std::string& shard_name);

/// The path of a one-shard index (index.h) with the shard's records.
PathAt pack_part_index(const PathAt& directory, const std::string& shard_name);

/// Removes both files, if they are there.
void remove_pack_part(FileOps& ops, const PathAt& directory, const std::string& shard_name);

}  // namespace stoker
