#include "checkpoint/tree_removal.h"

#include <cerrno>
#include <vector>

#include "io/publish.h"

namespace stoker {
namespace {

constexpr int kDepthMax = 16;  // ours have three levels

Status remove_at(FileOps& ops, const std::string& path, int depth) {
  Status unlinked = ops.unlink(path);
  if (unlinked.ok() || unlinked.code() == Code::not_found) return {};
  // Linux says EISDIR for a directory, POSIX EPERM; anything else is a refusal.
  if (unlinked.os_error() != EISDIR && unlinked.os_error() != EPERM) return unlinked;
  if (depth > kDepthMax)
    return Status(Code::invalid_argument, path + ": directories are nested too deeply");
  const Result<std::vector<std::string>> names = ops.list(path);
  if (!names.ok()) return names.status().code() == Code::not_found ? Status() : names.status();
  Status first;
  for (const std::string& name : *names) {
    const Status status = remove_at(ops, path + "/" + name, depth + 1);
    if (first.ok()) first = status;
  }
  const Status removed = ops.rmdir(path);
  if (first.ok() && removed.code() != Code::not_found) first = removed;
  return first;
}

}  // namespace

Status remove_tree(FileOps& ops, const std::string& path) {
  return remove_at(ops, path, 0);
}

Status make_directories(FileOps& ops, const std::string& path) {
  Status made = ops.mkdir(path);
  if (made.code() == Code::not_found && parent_of(path) != path) {
    STOKER_TRY(make_directories(ops, parent_of(path)));
    made = ops.mkdir(path);
  }
  if (!made.ok() && made.code() != Code::already_exists) return made;
  const Status synced = ops.fsync_dir(parent_of(path));
  // One that was there may have a parent that is not ours to open: its name is old then.
  return made.code() == Code::already_exists && synced.code() == Code::denied ? Status() : synced;
}

}  // namespace stoker
