#pragma once

#include <memory>
#include <string>

#include "io/files/file_ops.h"
#include "io/files/path_at.h"

namespace stoker {

/// Opens the directory `path` as a root, below which names are looked up. If `path` is itself below
/// a root, no link is followed.
Result<std::shared_ptr<const RootDirectory>> open_root(FileOps& ops, const PathAt& path);

/// Creates a directory and its missing parents, and makes their names durable. The name of an
/// existing directory is made durable too, because another process may have just created it.
Status make_directories(FileOps& ops, const std::string& path);

/// Creates one directory in a place that others may write to. An existing directory is accepted;
/// `invalid_argument` if the name is anything else, including a symbolic link to a directory.
Status make_own_directory(FileOps& ops, const PathAt& path);

/// Removes a file, or a directory with its contents, without following links below its parent
/// directory. A name that does not exist is not an error. A filesystem that is mounted there is
/// kept and reported as `unavailable` (EBUSY). Continues after other errors and returns the first.
Status remove_tree(FileOps& ops, const PathAt& path);

}  // namespace stoker
