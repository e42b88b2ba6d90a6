#pragma once

#include "dataset/pack/pack.h"

namespace stoker::internal {

/// merge_pack() for a caller that holds the directory's lock.
Result<PackReport> merge_locked(FileOps& ops, const PathAt& directory, const PackJob& job);

}  // namespace stoker::internal
