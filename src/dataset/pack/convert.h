/// \file
/// `stoker convert`: from one format of shards to another.
#pragma once

#include <span>
#include <string>

#include "dataset/pack/pack.h"
#include "dataset/shard_dataset.h"

namespace stoker {

/// Packs the samples of the shards that `patterns` name into `directory`, as pack() does:
/// streaming, in parallel, resumable. Keys and fields stay the same; ShardFormat::fit converts
/// types that the new format lacks. Tars compressed with gzip or zstd do not allow random access:
/// all of them are first decompressed into `directory`'s `.stoker`, and removed from there at the
/// end. A directory of compressed tars must not contain plain tars or an index.json.
Result<PackReport> convert(FileOps& ops, std::span<const std::string> patterns,
                           const std::string& directory, const ShardDataset::Options& source,
                           const PackOptions& options);

}  // namespace stoker
