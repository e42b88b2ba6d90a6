#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace stoker::cli {

/// The path with "~" or "~user" at its beginning expanded, as Python's os.path.expanduser does it
/// and so the Python package. A user who is not known stays as typed.
std::string expand_home(const std::string& path);

/// Says that the option takes paths: "~" is expanded where a shell did not, as in quotes or in
/// --option=~/x.
CLI::Option* as_path(CLI::Option* option);

}  // namespace stoker::cli
