/// \file
/// WebDataset shards: tar archives in which consecutive members with the same key are one sample.
#pragma once

#include <memory>

#include "formats/shard_format.h"

namespace stoker {

struct WebDatasetOptions {
  /// Reject an archive without its end-of-archive block. webdataset reads such archives; but one
  /// that was truncated between two members looks the same, and its last sample lacks fields.
  bool require_end = true;
};

/// A sample's record extends from the first header of its first member to the end of its last
/// member's padding. Members that webdataset ignores (directories, metadata, names without an
/// extension) are ignored here too. A duplicate field in a sample is `corrupt`, and the same key
/// again after another one is another sample, both as in webdataset. See TarWalker for what else is
/// rejected.
std::unique_ptr<ShardReader> make_webdataset_reader(const WebDatasetOptions& options = {});

}  // namespace stoker
