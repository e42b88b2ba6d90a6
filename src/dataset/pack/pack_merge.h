#pragma once

#include "dataset/pack/pack.h"

namespace stoker::internal {

/// merge_pack() for a caller that holds the directory's lock.
Result<PackReport> merge_locked(FileOps& ops, const PathAt& directory, const PackJob& job);

/// Returns the report of a job whose manifest exists; `not_found` if it does not. Removes what the
/// job left in `.stoker`.
Result<PackReport> find_finished(FileOps& ops, const PathAt& directory, const PackJob& job);

/// Takes the directory's lock: exclusive, or shared with other tasks of the same job. `unavailable`
/// while another process holds it.
Result<UniqueFd> lock_pack(FileOps& ops, const PathAt& directory, LockMode mode);

}  // namespace stoker::internal
