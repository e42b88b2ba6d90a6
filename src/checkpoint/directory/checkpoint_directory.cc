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

Status with_space_cure(const Status& failure, std::string_view need) {
  if (failure.code() != Code::no_space) return failure;
  return Status(failure.code(),
                std::string(failure.message()) + ". " + std::string(need) +
                    " a few KiB: delete another file, or, while no run writes, a checkpoint that "
                    "is not needed (rm -rf DIR/step-N)",
                failure.os_error());
}

}  // namespace stoker
