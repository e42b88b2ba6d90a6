#pragma once

#include <memory>
#include <string>

#include "io/files/file_ops.h"
#include "io/files/path_at.h"

namespace stoker {

/// Opens the directory `path` as a root, for what is looked up below it. Below another root no link
/// is followed on the way.
Result<std::shared_ptr<const RootDirectory>> open_root(FileOps& ops, const PathAt& path);

/// Makes a directory and those above it that are missing, and makes their names durable; also that
/// of a directory which is there, for somebody may have made it a moment ago.
Status make_directories(FileOps& ops, const std::string& path);

/// Makes one directory in a place that others may write to. One that is there is taken;
/// `invalid_argument` if something else has the name, a symbolic link to a directory included.
Status make_own_directory(FileOps& ops, const PathAt& path);

/// Removes a file, or a directory with all it holds, without following links below the directory
/// that holds it. What is gone already is no failure. What is mounted there stays, which is an
/// error (EBUSY). Continues after an error and returns the first.
Status remove_tree(FileOps& ops, const PathAt& path);

}  // namespace stoker
