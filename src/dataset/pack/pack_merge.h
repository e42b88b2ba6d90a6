#pragma once

#include "dataset/pack/pack.h"

namespace stoker::internal {

/// merge_pack() for one who holds the directory's lock already.
Result<PackReport> merge_locked(FileOps& ops, const PathAt& directory, const PackJob& job);

/// The report of a job whose manifest is there; `not_found` if it is not. Removes what the job has
/// left in `.stoker`.
Result<PackReport> find_finished(FileOps& ops, const PathAt& directory, const PackJob& job);

/// Takes the directory's lock: alone, or with other tasks of one job. `unavailable` while it is
/// held.
Result<UniqueFd> lock_pack(FileOps& ops, const PathAt& directory, LockMode mode);

}  // namespace stoker::internal
