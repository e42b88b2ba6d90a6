/// \file
/// The entries of manifest.json, which the records of finished shards (pack_part.h) also use.
#pragma once

#include "dataset/shards/dataset_manifest.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {

Result<ManifestFile> parse_manifest_file(const JsonView& entry);
Result<ManifestShard> parse_manifest_shard(const JsonView& entry);

Json manifest_file_json(const ManifestFile& file);
Json manifest_shard_json(const ManifestShard& shard);

}  // namespace stoker::internal
