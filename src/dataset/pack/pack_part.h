/// \file
/// The record of a finished shard, stored in "<dst>/.stoker/pack/" until all shards are finished
/// and the records are merged into one manifest and one index.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "dataset/pack/field_losses.h"
#include "dataset/shards/dataset_manifest.h"
#include "formats/shard_format.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct PackPart {
  std::string plan_hash;
  ManifestShard shard;
  std::vector<ManifestFile> files;  ///< Other files of the shard: Megatron's ".idx".
  /// Of the shard's fields; nothing if they are not recorded.
  std::optional<FieldTypes> types;
  FieldLosses losses = {};
  std::string mds_index;  ///< An index.json with only this shard; empty if not MDS.

  bool operator==(const PackPart&) const = default;
};

/// Publishes the offsets and checksums of a shard's samples, then the part itself.
Status publish_pack_part(FileOps& ops, const PathAt& directory, const PackPart& part,
                         std::span<const ByteRange> records,
                         std::span<const std::uint32_t> checksums);

/// Reads the part of a shard. `not_found` if it has none; `corrupt` if it is damaged.
Result<PackPart> read_pack_part(const PathAt& directory, const std::string& shard_name);

/// The path of a one-shard index (index.h) with the shard's records.
PathAt pack_part_index(const PathAt& directory, const std::string& shard_name);

/// Removes both files, if they exist.
void remove_pack_part(FileOps& ops, const PathAt& directory, const std::string& shard_name);

}  // namespace stoker
