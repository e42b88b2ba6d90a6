#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "io/files/directories.h"
#include "io/files/file_ops.h"
#include "io/files/path_at.h"

namespace stoker {

/// A directory of checkpoints, open. Everything in it is looked up through here: from the
/// directory's descriptor, without following a symbolic link (io/path_at.h). So a name that
/// somebody has replaced by a link leads nowhere, and a directory that was renamed or mounted over
/// meanwhile is still the same one.
///
/// Thread safety: immutable; copies share the descriptor.
class CheckpointDirectory {
 public:
  /// Opens one that is there. Links on the way to it are followed.
  static Result<CheckpointDirectory> open(FileOps& ops, const std::string& path);
  /// The same; makes it, and those above it, where they are missing.
  static Result<CheckpointDirectory> make(FileOps& ops, const std::string& path);

  FileOps& ops() const noexcept { return *ops_; }
  /// As it was opened; for messages.
  const std::string& path() const noexcept { return root_->path; }
  PathAt self() const { return {root_, ""}; }
  /// "step-000000000001/manifest.json"
  PathAt at(std::string_view name) const { return {root_, name}; }

  /// Whether the path it was opened by still leads to it: somebody may have removed or moved it, or
  /// changed a link. In doubt it does.
  bool is_where_it_was() const;

  /// The same directory by other system calls.
  CheckpointDirectory with(FileOps& ops) const { return {ops, root_}; }

 private:
  CheckpointDirectory(FileOps& ops, std::shared_ptr<const RootDirectory> root)
      : ops_(&ops), root_(std::move(root)) {}

  FileOps* ops_;
  std::shared_ptr<const RootDirectory> root_;
};

}  // namespace stoker
