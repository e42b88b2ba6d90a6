/// \file
/// The directory of a pack job: its lock, and whether the job is finished.
#pragma once

#include "base/unique_fd.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_plan.h"
#include "dataset/shards/dataset_manifest.h"
#include "io/files/file_ops.h"
#include "io/files/path_at.h"
#include "stoker/status.h"

namespace stoker::internal {

/// Takes the directory's lock: exclusive, or shared with other tasks of the same job. `unavailable`
/// while another process holds it.
Result<UniqueFd> lock_pack(FileOps& ops, const PathAt& directory, LockMode mode);

/// Returns the report of a job whose manifest exists; `not_found` if it does not. Removes what the
/// job left in `.stoker`.
Result<PackReport> find_finished(FileOps& ops, const PathAt& directory, const PackJob& job);

/// The report of a finished job, all of whose shards were found.
PackReport report_of(const Manifest& manifest);

/// Removes what a finished job, and conversions that failed, have left in `.stoker`, as far as
/// possible.
void remove_parts(FileOps& ops, const PathAt& directory, const PackJob& job);

}  // namespace stoker::internal
