#pragma once

#include <string>

namespace stoker::cli {

/// Expands "~" or "~user" at the beginning of the path, like os.path.expanduser, which the Python
/// package uses. An unknown user is left as typed.
std::string expand_home(const std::string& path);

}  // namespace stoker::cli
