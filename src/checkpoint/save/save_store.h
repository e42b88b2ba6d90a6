#pragma once

#include <memory>

#include "checkpoint/save/checkpointer.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/files/file_ops.h"

namespace stoker {

/// The store that a Checkpointer saves to, with one handle for each of its threads.
struct SaveStores {
  std::shared_ptr<const CheckpointStore> caller;
  std::shared_ptr<const CheckpointStore> writer;  ///< Uses the FileOps of the writer's thread.
};

/// Returns `options.store`, or else the directory, which is created if missing.
Result<SaveStores> make_save_stores(const CheckpointerOptions& options, FileOps& writer_ops);
/// Returns the handle of the writer's thread alone. The directory must exist.
Result<std::shared_ptr<const CheckpointStore>> open_save_store(const CheckpointerOptions& options,
                                                               FileOps& writer_ops);

}  // namespace stoker
