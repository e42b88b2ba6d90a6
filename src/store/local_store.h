/// \file
/// Presents the files of this machine as objects.
#pragma once

#include <memory>

#include "io/files/file_ops.h"
#include "io/files/path_at.h"
#include "store/object_store.h"

namespace stoker {

/// Returns the store whose keys are paths as a user writes them: a relative path starts at the
/// working directory, and symbolic links are followed. An upload is published through
/// FilePublisher, with its crash points; missing parent directories are created.
std::shared_ptr<ObjectStore> local_store();
/// Returns a local store that uses `ops` for its system calls, for fault tests. `ops` must outlive
/// the store.
std::shared_ptr<ObjectStore> make_local_store(FileOps& ops);

/// Opens one file as an object. For names below a root, where no link is followed.
Result<std::unique_ptr<const Object>> open_local_object(FileOps& ops, const PathAt& path,
                                                        CachePolicy policy);

}  // namespace stoker
