/// \file
/// Presents the files of this machine as objects.
#pragma once

#include <memory>

#include "io/files/file_ops.h"
#include "io/files/path_at.h"
#include "stoker/store.h"

namespace stoker {

/// Returns a local_store() that uses `ops` for its system calls, for fault tests. `ops` must
/// outlive the store. Uploads go through FilePublisher, with its crash points.
std::shared_ptr<ObjectStore> make_local_store(FileOps& ops);

/// Opens one file as an object. For names below a root, where no link is followed.
Result<std::unique_ptr<const Object>> open_local_object(FileOps& ops, const PathAt& path,
                                                        CachePolicy policy);

}  // namespace stoker
