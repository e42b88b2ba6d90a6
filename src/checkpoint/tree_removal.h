#pragma once

#include <string>

#include "io/file_ops.h"

namespace stoker {

/// Removes a file, or a directory with all it holds, without following links. What is gone already
/// is no failure. Goes on after an error and returns the first.
Status remove_tree(FileOps& ops, const std::string& path);

/// Makes a directory and those above it that are missing, and makes their names durable; also that
/// of a directory which is there, for somebody may have made it a moment ago.
Status make_directories(FileOps& ops, const std::string& path);

}  // namespace stoker
