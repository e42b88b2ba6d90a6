/// \file
/// `stoker convert`: from one format of shards to another.
#pragma once

#include <span>
#include <string>

#include "dataset/dataset.h"
#include "dataset/pack.h"

namespace stoker {

/// Packs the samples of the shards that `patterns` name into `directory`, as pack() does:
/// streaming, in parallel, resumable. Keys and fields stay; pack_fields.h says what becomes of
/// types that the new format lacks. A tar compressed with gzip, which cannot be read at random, is
/// first inflated into `directory`'s `.stoker`, and removed from there at the end.
Result<PackReport> convert(FileOps& ops, std::span<const std::string> patterns,
                           const std::string& directory, const Dataset::Options& source,
                           const PackOptions& options);

}  // namespace stoker
