#pragma once

#include "base/unique_fd.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Opens a file that is used only as a lock; creates it exclusively if it is missing. The file is
/// opened for writing because NFS requires it, but never written or truncated. Follows no symbolic
/// link and never waits: `invalid_argument` for anything but a regular file.
Result<UniqueFd> open_lock_file(FileOps& ops, const PathAt& path);

}  // namespace stoker
