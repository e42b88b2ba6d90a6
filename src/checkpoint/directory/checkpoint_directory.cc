#include "checkpoint/directory/checkpoint_directory.h"

namespace stoker {

Result<CheckpointDirectory> CheckpointDirectory::open(FileOps& ops, const std::string& path) {
  std::string plain = path;
  while (plain.size() > 1 && plain.ends_with('/')) plain.pop_back();
  STOKER_ASSIGN(std::shared_ptr<const RootDirectory> root, open_root(ops, plain));
  return CheckpointDirectory(ops, std::move(root));
}

Result<CheckpointDirectory> CheckpointDirectory::make(FileOps& ops, const std::string& path) {
  STOKER_TRY(make_directories(ops, path));
  return open(ops, path);
}

}  // namespace stoker
