#pragma once

#include <string>

namespace stoker::cli {

/// The path with "~" or "~user" at its beginning expanded, as Python's os.path.expanduser does it
/// and so the Python package. A user who is not known stays as typed.
std::string expand_home(const std::string& path);

}  // namespace stoker::cli
