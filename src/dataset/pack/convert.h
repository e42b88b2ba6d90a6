/// \file
/// `stoker convert`: from one format of shards to another.
#pragma once

#include <span>
#include <string>

#include "dataset/dataset.h"
#include "dataset/pack/pack.h"

namespace stoker {

/// Packs the samples of the shards that `patterns` name into `directory`, as pack() does:
/// streaming, in parallel, resumable. Keys and fields stay; ShardFormat::fit says what becomes of
/// types that the new format lacks. Tars compressed with gzip or zstd, which cannot be read at
/// random, are first inflated into `directory`'s `.stoker`, all of them, and removed from there at
/// the end; a directory may hold nothing else.
Result<PackReport> convert(FileOps& ops, std::span<const std::string> patterns,
                           const std::string& directory, const Dataset::Options& source,
                           const PackOptions& options);

}  // namespace stoker
