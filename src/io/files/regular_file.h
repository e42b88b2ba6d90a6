#pragma once

#include "base/unique_fd.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Opens a regular file for reading; `invalid_argument` for a directory, a pipe or a device. Never
/// waits, as open(2) does for a FIFO without a writer. Use it for every name that comes from a
/// user.
Result<UniqueFd> open_regular(FileOps& ops, const PathAt& path);

}  // namespace stoker
