#pragma once

#include "stoker/status.h"

namespace stoker::internal {

/// Call it in a handler: returns the exception as a Status. `unavailable` if there is no memory (as
/// for ENOMEM), the error of a std::system_error, such as that of a thread that cannot be started,
/// and `invalid_argument` with its text for any other: only what the program has passed in throws
/// those.
Status status_of_exception() noexcept;

}  // namespace stoker::internal
