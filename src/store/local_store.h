/// \file
/// The files of this machine as objects.
#pragma once

#include <memory>

#include "io/files/file_ops.h"
#include "io/files/path_at.h"
#include "store/object_store.h"

namespace stoker {

/// The store whose keys are paths, as a user writes them: relative ones begin at the working
/// directory, and links are followed. Uploads are published as publish_file() does it, with its
/// crash points; folders on the way are made.
std::shared_ptr<ObjectStore> local_store();
/// The same through other system calls, for fault tests. `ops` must outlive it.
std::shared_ptr<ObjectStore> make_local_store(FileOps& ops);

/// Opens one file as an object: for names below a root, where no link is followed.
Result<std::unique_ptr<const Object>> open_local_object(FileOps& ops, const PathAt& path,
                                                        CachePolicy policy);

}  // namespace stoker
