// Names: what FileOps does to directories of the model disk.
#include <algorithm>
#include <cerrno>

#include "support/model_disk.h"

namespace stoker::testing {
namespace {

Status refused(int error, std::string_view op, const PathAt& path) {
  return Status::from_errno(error, op, path.text());
}

}  // namespace

Result<ModelPlace> ModelDisk::resolve(const PathAt& path, bool follow_last) const {
  STOKER_ASSIGN(ModelPlace place, state_.resolve(path.text(), follow_last && !path.is_below()));
  if (!path.is_below()) return place;
  const std::string_view name = path.name();
  const std::string root = path.text().substr(0, path.text().size() - name.size());
  for (std::size_t end = 0; end < name.size();) {
    end = std::min(name.find('/', end + 1), name.size());
    if (end == name.size() && !follow_last) break;
    STOKER_ASSIGN(const ModelPlace part,
                  state_.resolve(root + std::string(name.substr(0, end)), /*follow_last=*/false));
    if (part.inode != kNoInode && state_.at(part.inode).kind == FileKind::symlink)
      return refused(ELOOP, "resolve", path);
  }
  return place;
}

Result<InodeId> ModelDisk::find(const PathAt& path, bool follow_last) const {
  STOKER_ASSIGN(const ModelPlace place, resolve(path, follow_last));
  if (place.inode == kNoInode) return refused(ENOENT, "find", path);
  return place.inode;
}

Result<ModelPlace> ModelDisk::find_free(const PathAt& path) const {
  STOKER_ASSIGN(ModelPlace place, resolve(path, /*follow_last=*/false));
  if (place.inode != kNoInode) return refused(EEXIST, "create", path);
  return place;
}

void ModelDisk::add_name(const ModelPlace& place, ModelInode inode) {
  const bool is_directory = inode.kind == FileKind::directory;
  const InodeId id = state_.add_inode(std::move(inode));
  state_.names().apply(
      {.changes = {{place.directory, place.name, id}}, .directory = is_directory ? id : kNoInode});
}

Status ModelDisk::move(const PathAt& from, const PathAt& to, bool replace) {
  STOKER_ASSIGN(const ModelPlace source, resolve(from, /*follow_last=*/false));
  STOKER_ASSIGN(const ModelPlace target, resolve(to, /*follow_last=*/false));
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

Status ModelDisk::rename(const PathAt& from, const PathAt& to) {
  const MutexLock lock(mutex_);
  STOKER_TRY(move(from, to, /*replace=*/true));
  tell("rename " + to.text());
  return {};
}

Status ModelDisk::rename_noreplace(const PathAt& from, const PathAt& to) {
  const MutexLock lock(mutex_);
  STOKER_TRY(move(from, to, /*replace=*/false));
  tell("rename_noreplace " + to.text());
  return {};
}

Status ModelDisk::link(const PathAt& from, const PathAt& to) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(from, /*follow_last=*/false));
  if (state_.at(id).kind == FileKind::directory) return refused(EPERM, "link", from);
  STOKER_ASSIGN(const ModelPlace place, find_free(to));
  state_.names().apply({.changes = {{place.directory, place.name, id}}});
  tell("link " + to.text());
  return {};
}

Status ModelDisk::symlink(const std::string& target, const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, find_free(path));
  add_name(place, {.kind = FileKind::symlink, .mode = 0777, .target = target});
  tell("symlink " + path.text());
  return {};
}

Result<std::string> ModelDisk::read_link(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/false));
  if (state_.at(id).kind != FileKind::symlink) return refused(EINVAL, "readlink", path);
  tell("read_link " + path.text());
  return state_.at(id).target;
}

Result<FileInfo> ModelDisk::info_of(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/false));
  tell("info_of " + path.text());
  const ModelInode& inode = state_.at(id);
  FileInfo info{.kind = inode.kind, .device = 1, .inode = id};
  info.link_count = state_.names().count(id);
  if (inode.kind == FileKind::regular) info.size_bytes = inode.file.size_bytes();
  return info;
}

Status ModelDisk::unlink(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, resolve(path, /*follow_last=*/false));
  if (place.inode == kNoInode) return refused(ENOENT, "unlink", path);
  if (state_.at(place.inode).kind == FileKind::directory) return refused(EISDIR, "unlink", path);
  state_.names().apply({.changes = {{place.directory, place.name, kNoInode}}});
  tell("unlink " + path.text());
  return {};
}

Status ModelDisk::mkdir(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, find_free(path));
  add_name(place, {.kind = FileKind::directory, .mode = 0755});
  tell("mkdir " + path.text());
  return {};
}

Status ModelDisk::rmdir(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const ModelPlace place, resolve(path, /*follow_last=*/false));
  if (place.inode == kNoInode) return refused(ENOENT, "rmdir", path);
  if (place.directory == kNoInode) return refused(EBUSY, "rmdir", path);
  if (state_.at(place.inode).kind != FileKind::directory) return refused(ENOTDIR, "rmdir", path);
  if (!state_.names().live(place.inode).empty()) return refused(ENOTEMPTY, "rmdir", path);
  state_.names().apply({.changes = {{place.directory, place.name, kNoInode}},
                        .directory = place.inode,
                        .emptied = place.inode});
  tell("rmdir " + path.text());
  return {};
}

Result<std::vector<DirectoryName>> ModelDisk::list_names(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/true));
  if (state_.at(id).kind != FileKind::directory) return refused(ENOTDIR, "opendir", path);
  std::vector<DirectoryName> names;
  for (const auto& [name, child] : state_.names().live(id))
    names.push_back({.name = name, .inode = child, .kind = state_.at(child).kind});
  tell("list_names " + path.text());
  return names;
}

Status ModelDisk::fsync_dir(const PathAt& path) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, find(path, /*follow_last=*/true));
  if (state_.at(id).kind != FileKind::directory) return refused(ENOTDIR, "open", path);
  state_.names().sync(id);
  tell("fsync_dir " + path.text());
  return {};
}

}  // namespace stoker::testing
