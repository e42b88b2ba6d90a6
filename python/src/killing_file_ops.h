#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "io/files/file_ops.h"

namespace stoker::python {

/// Like posix_file_ops(), but the process is killed with SIGKILL when `crash_point` is reached for
/// the `count`-th time: for tests that kill a training run through its own interface.
///
/// Thread safety: every method may be called from any thread.
std::unique_ptr<FileOps> make_killing_file_ops(std::string crash_point, std::uint32_t count);

}  // namespace stoker::python
