#pragma once

#include "base/unique_fd.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Opens a file that is only ever locked, and creates it exclusively if it is missing. It is never
/// written or truncated; NFS asks for a descriptor that could be. Follows no symbolic link and
/// never waits: `invalid_argument` for anything but a regular file.
Result<UniqueFd> open_lock_file(FileOps& ops, const PathAt& path);

}  // namespace stoker
