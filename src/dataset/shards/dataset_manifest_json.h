/// \file
/// The entries of manifest.json, which the records of finished shards (pack_part.h) are made of
/// too.
#pragma once

#include <nlohmann/json.hpp>

#include "dataset/shards/dataset_manifest.h"
#include "formats/json/strict_json.h"

namespace stoker::internal {

Result<ManifestFile> parse_manifest_file(const JsonView& entry);
Result<ManifestShard> parse_manifest_shard(const JsonView& entry);

nlohmann::ordered_json manifest_file_json(const ManifestFile& file);
nlohmann::ordered_json manifest_shard_json(const ManifestShard& shard);

}  // namespace stoker::internal
