#pragma once

#include "base/unique_fd.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Opens a file to read, and nothing else: `invalid_argument` for a directory, a pipe, a socket or
/// a device. Never waits, as open(2) does for a FIFO that nobody writes to: whatever a user named
/// is opened by this.
Result<UniqueFd> open_regular(FileOps& ops, const PathAt& path);

}  // namespace stoker
