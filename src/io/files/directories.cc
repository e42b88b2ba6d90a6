#include "io/files/directories.h"

#include <fcntl.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "io/files/publish.h"

namespace stoker {
namespace {

constexpr int kDepthMax = 16;  // Stoker's own trees have three levels

Status mounted(const PathAt& path) {
  return {Code::unavailable,
          path.text() + ": something is mounted there, and mounts are not removed; unmount it",
          EBUSY};
}

Status remove_at(FileOps& ops, const PathAt& path, FileKind kind, int depth) {
  if (kind != FileKind::directory) {
    const Status unlinked = ops.unlink(path);
    return unlinked.code() == Code::not_found ? Status() : unlinked;
  }
  if (depth > kDepthMax)
    return Status(Code::invalid_argument, path.text() + ": directories are nested too deeply");
  const Result<std::vector<DirectoryName>> names = ops.list_names(path);
  if (!names.ok()) return names.status().code() == Code::not_found ? Status() : names.status();
  Status first;
  for (const DirectoryName& name : *names) {
    const Status status = remove_at(ops, path / name.name, name.kind, depth + 1);
    if (status.os_error() == EXDEV) return mounted(path);  // every name in it is on that mount
    if (first.ok()) first = status;
  }
  const Status removed = ops.rmdir(path);
  if (removed.os_error() == EBUSY && first.ok()) return mounted(path);
  if (first.ok() && removed.code() != Code::not_found) first = removed;
  return first;
}

}  // namespace

Result<std::shared_ptr<const RootDirectory>> open_root(FileOps& ops, const PathAt& path) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_PATH | O_DIRECTORY));
  return std::make_shared<const RootDirectory>(
      RootDirectory{.path = path.text(), .fd = std::move(fd)});
}

Status make_directories(FileOps& ops, const std::string& path) {
  Status made = ops.mkdir(path);
  if (made.code() == Code::not_found && parent_of(path) != path) {
    STOKER_TRY(make_directories(ops, parent_of(path)));
    made = ops.mkdir(path);
  }
  if (!made.ok() && made.code() != Code::already_exists) return made;
  const Status synced = ops.fsync_dir(parent_of(path));
  // An existing directory may have a parent that this user cannot open: its name is then not new.
  return made.code() == Code::already_exists && synced.code() == Code::denied ? Status() : synced;
}

Status make_own_directory(FileOps& ops, const PathAt& path) {
  Status made = ops.mkdir(path);
  if (made.ok()) return ops.fsync_dir(path.parent());
  if (made.code() != Code::already_exists) return made;
  STOKER_ASSIGN(const FileKind kind, ops.kind_of(path));
  if (kind == FileKind::directory) return {};
  return Status(Code::invalid_argument,
                path.text() +
                    (kind == FileKind::symlink ? ": a symbolic link, which is not followed"
                                               : ": not a directory") +
                    "; remove it");
}

Status remove_tree(FileOps& ops, const PathAt& path) {
  if (!path.is_below()) {
    const Result<std::shared_ptr<const RootDirectory>> root = open_root(ops, path.parent());
    if (!root.ok()) return root.status().code() == Code::not_found ? Status() : root.status();
    return remove_tree(ops, {*root, path.last()});
  }
  const Result<FileKind> kind = ops.kind_of(path);
  if (!kind.ok()) return kind.status().code() == Code::not_found ? Status() : kind.status();
  return remove_at(ops, path, *kind, 0);
}

}  // namespace stoker
