// Names: what FileOps does to directories of the model disk.
#include <algorithm>
#include <cerrno>

#include "support/model_disk.h"

namespace stoker::testing {
namespace {

Status refused(int error, std::string_view op, const std::string& path) {
  return Status::from_errno(error, op, path);
}

}  // namespace

Result<InodeId> ModelDisk::find(const std::string& path, bool follow_last) const {
  STOKER_ASSIGN(const ModelPlace place, state_.resolve(path, follow_last));
  if (place.inode == kNoInode) return refused(ENOENT, "find", path);
  return place.inode;
}

Result<ModelPlace> ModelDisk::find_free(const std::string& path) const {
  STOKER_ASSIGN(ModelPlace place, state_.resolve(path, /*follow_last=*/false));
  if (place.inode != kNoInode) return refused(EEXIST, "create", path);
  return place;
}

void ModelDisk::add_name(const ModelPlace& place, ModelInode inode) {
  const bool is_directory = inode.kind == FileKind::directory;
  const InodeId id = state_.add_inode(std::move(inode));
  state_.names().apply(
      {.changes = {{place.directory, place.name, id}}, .directory = is_directory ? id : kNoInode});
}

Status ModelDisk::move(const std::string& from, const std::string& to, bool replace) {
  STOKER_ASSIGN(const ModelPlace source, state_.resolve(from, /*follow_last=*/false));
  STOKER_ASSIGN(const ModelPlace target, state_.resolve(to, /*follow_last=*/false));
  if (source.inode == kNoInode) return refused(ENOENT, "rename", from);
  if (source.directory == kNoInode || target.directory == kNoInode)
    return refused(EBUSY, "rename", to);
  if (!replace && target.inode != kNoInode) return refused(EEXIST, "rename", to);
  if (source.inode == target.inode) return {};  // two names of one file: POSIX does nothing
  const bool is_directory = state_.at(source.inode).kind == FileKind::directory;
  if (is_directory && state_.is_below(target.directory, source.inode))
    return refused(EINVAL, "rename", to);
  NameOp op{.changes = {{source.directory, source.name, kNoInode},
                        {target.directory, target.name, source.inode}},
            .directory = is_directory ? source.inode : kNoInode};
  if (target.inode != kNoInode) {
    const bool onto_directory = state_.at(target.inode).kind == FileKind::directory;
    if (is_directory != onto_directory)
      return refused(is_directory ? ENOTDIR : EISDIR, "rename", to);
    if (onto_directory && !state_.names().live(target.inode).empty())
      return refused(ENOTEMPTY, "rename", to);
    if (onto_directory) op.emptied = target.inode;
  }
  state_.names().apply(std::move(op));
  return {};
}

Status ModelDisk::rename(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  STOKER_TRY(move(from, to, /*replace=*/true));
  tell("rename " + to);
  return {};
}

Status ModelDisk::rename_noreplace(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  STOKER_TRY(move(from, to, /*replace=*/false));
  tell("rename_noreplace " + to);
  return {};
}

Status ModelDisk::link(const std::string& from, const std::string& to) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(from, /*follow_last=*/false));
  if (state_.at(id).kind == FileKind::directory) return refused(EPERM, "link", from);
  STOKER_ASSIGN(const ModelPlace place, find_free(to));
  state_.names().apply({.changes = {{place.directory, place.name, id}}});
  tell("link " + to);
  return {};
}

Status ModelDisk::symlink(const std::string& target, const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, find_free(path));
  add_name(place, {.kind = FileKind::symlink, .mode = 0777, .target = target});
  tell("symlink " + path);
  return {};
}

Result<std::string> ModelDisk::read_link(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/false));
  if (state_.at(id).kind != FileKind::symlink) return refused(EINVAL, "readlink", path);
  tell("read_link " + path);
  return state_.at(id).target;
}

Result<FileKind> ModelDisk::kind_of(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/false));
  tell("kind_of " + path);
  return state_.at(id).kind;
}

Status ModelDisk::unlink(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, state_.resolve(path, /*follow_last=*/false));
  if (place.inode == kNoInode) return refused(ENOENT, "unlink", path);
  if (state_.at(place.inode).kind == FileKind::directory) return refused(EISDIR, "unlink", path);
  state_.names().apply({.changes = {{place.directory, place.name, kNoInode}}});
  tell("unlink " + path);
  return {};
}

Status ModelDisk::mkdir(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, find_free(path));
  add_name(place, {.kind = FileKind::directory, .mode = 0755});
  tell("mkdir " + path);
  return {};
}

Status ModelDisk::rmdir(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, state_.resolve(path, /*follow_last=*/false));
  if (place.inode == kNoInode) return refused(ENOENT, "rmdir", path);
  if (place.directory == kNoInode) return refused(EBUSY, "rmdir", path);
  if (state_.at(place.inode).kind != FileKind::directory) return refused(ENOTDIR, "rmdir", path);
  if (!state_.names().live(place.inode).empty()) return refused(ENOTEMPTY, "rmdir", path);
  state_.names().apply({.changes = {{place.directory, place.name, kNoInode}},
                        .directory = place.inode,
                        .emptied = place.inode});
  tell("rmdir " + path);
  return {};
}

Result<std::vector<std::string>> ModelDisk::list(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/true));
  if (state_.at(id).kind != FileKind::directory) return refused(ENOTDIR, "opendir", path);
  std::vector<std::string> names;
  for (const auto& [name, child] : state_.names().live(id)) names.push_back(name);
  tell("list " + path);
  return names;
}

Status ModelDisk::fsync_dir(const std::string& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/true));
  if (state_.at(id).kind != FileKind::directory) return refused(ENOTDIR, "open", path);
  state_.names().sync(id);
  tell("fsync_dir " + path);
  return {};
}

}  // namespace stoker::testing
