/// \file
/// What `stoker --version` prints.
#pragma once

#include <string>

namespace stoker::cli {

std::string version_text();
/// The same as one JSON object, which is also what stoker.build_info() returns in Python.
std::string version_json();

}  // namespace stoker::cli
