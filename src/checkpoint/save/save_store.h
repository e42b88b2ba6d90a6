#pragma once

#include <memory>

#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/files/file_ops.h"

namespace stoker {

/// The store that a CheckpointSaver saves to, with one handle for each of its threads: each uses
/// that thread's FileOps.
struct SaveStores {
  std::shared_ptr<const CheckpointStore> caller;
  std::shared_ptr<const CheckpointStore> writer;
};

/// Returns `options.store`, or else the directory, which is created if missing.
Result<SaveStores> make_save_stores(const SaverOptions& options, FileOps& caller_ops,
                                    FileOps& writer_ops);
/// Returns the handle of the writer's thread alone. The directory must exist.
Result<std::shared_ptr<const CheckpointStore>> open_save_store(const SaverOptions& options,
                                                               FileOps& writer_ops);

}  // namespace stoker
