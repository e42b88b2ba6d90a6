#include "checkpoint/save/save_store.h"

#include "checkpoint/directory/checkpoint_directory.h"

namespace stoker {

Result<SaveStores> make_save_stores(const SaverOptions& options, FileOps& caller_ops,
                                    FileOps& writer_ops) {
  if (options.store != nullptr) return SaveStores{.caller = options.store, .writer = options.store};
  STOKER_ASSIGN(const CheckpointDirectory directory,
                CheckpointDirectory::make(caller_ops, options.directory));
  return SaveStores{.caller = directory.share(), .writer = directory.with(writer_ops).share()};
}

Result<std::shared_ptr<const CheckpointStore>> open_save_store(const SaverOptions& options,
                                                               FileOps& writer_ops) {
  if (options.store != nullptr) return options.store;
  STOKER_ASSIGN(const CheckpointDirectory directory,
                CheckpointDirectory::open(writer_ops, options.directory));
  return directory.share();
}

}  // namespace stoker
