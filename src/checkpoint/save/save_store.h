#pragma once

#include <memory>

#include "checkpoint/save/checkpointer.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/files/file_ops.h"

namespace stoker {

/// The place that a Checkpointer saves to, as each of its threads reaches it.
struct SaveStores {
  std::shared_ptr<const CheckpointStore> caller;
  std::shared_ptr<const CheckpointStore> writer;  ///< By the calls of the writer's thread.
};

/// `options.store`, or the directory, which is made if it is not there.
Result<SaveStores> make_save_stores(const CheckpointerOptions& options, FileOps& writer_ops);
/// The writer's thread's alone. The directory must be there.
Result<std::shared_ptr<const CheckpointStore>> open_save_store(const CheckpointerOptions& options,
                                                               FileOps& writer_ops);

}  // namespace stoker
