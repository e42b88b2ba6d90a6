// Descriptors: what FileOps does to open files. Names are in model_disk_names.cc.
#include "support/model_disk.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace stoker::testing {
namespace {

Status refused(int error, std::string_view op, std::string_view path = "") {
  return Status::from_errno(error, op, path);
}

}  // namespace

void ModelDisk::watch(Watcher watcher) {
  const MutexLock lock(mutex_);
  watcher_ = std::move(watcher);
}

ModelState ModelDisk::snapshot() const {
  const MutexLock lock(mutex_);
  return state_;
}

std::vector<CutState> ModelDisk::cut(const CutOptions& options) const {
  return states_after_cut(snapshot(), options);
}

void ModelDisk::tell(const std::string& operation) {
  if (watcher_) watcher_(state_, operation);
}

Result<InodeId> ModelDisk::inode_of(int fd) const {
  struct stat info{};
  if (::fstat(fd, &info) != 0) return refused(errno, "fstat");
  const auto found = by_key_.find({info.st_dev, info.st_ino});
  if (found == by_key_.end()) return refused(EBADF, "a descriptor that is not of this disk");
  return found->second;
}

Result<int> ModelDisk::memory_of(InodeId id) {
  if (const auto found = memories_.find(id); found != memories_.end()) return found->second.get();
  UniqueFd memory(::memfd_create("model_disk", MFD_CLOEXEC));
  if (!memory) return refused(errno, "memfd_create");
  const ModelInode& inode = state_.at(id);
  const std::vector<std::byte> bytes = inode.file.live().bytes();
  for (std::size_t done = 0; done < bytes.size();) {
    const ssize_t n =
        ::pwrite(memory.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (n <= 0) return refused(errno, "pwrite");
    done += static_cast<std::size_t>(n);
  }
  struct stat info{};
  if (::fchmod(memory.get(), inode.mode) != 0 || ::fstat(memory.get(), &info) != 0)
    return refused(errno, "fstat");
  by_key_[{info.st_dev, info.st_ino}] = id;
  return memories_.emplace(id, std::move(memory)).first->second.get();
}

Result<InodeId> ModelDisk::find_or_create(const PathAt& path, int flags) {
  STOKER_ASSIGN(const ModelPlace place, resolve(path, (flags & O_NOFOLLOW) == 0));
  if (place.inode == kNoInode) {
    if ((flags & O_CREAT) == 0) return refused(ENOENT, "open", path.text());
    add_name(place, {});
    return state_.names().find(place.directory, place.name);
  }
  if ((flags & O_CREAT) != 0 && (flags & O_EXCL) != 0) return refused(EEXIST, "open", path.text());
  const FileKind kind = state_.at(place.inode).kind;
  if (kind == FileKind::symlink) return refused(ELOOP, "open", path.text());
  if ((kind == FileKind::directory) != ((flags & O_DIRECTORY) != 0))
    return refused(kind == FileKind::directory ? EISDIR : ENOTDIR, "open", path.text());
  return place.inode;
}

Result<UniqueFd> ModelDisk::open(const PathAt& path, int flags) {
  const MutexLock lock(mutex_);
  const bool is_temporary = (flags & O_TMPFILE) == O_TMPFILE;
  if (is_temporary || (flags & O_APPEND) != 0) return refused(EOPNOTSUPP, "open", path.text());
  STOKER_ASSIGN(const InodeId id, find_or_create(path, flags));
  STOKER_ASSIGN(const int memory, memory_of(id));
  // A way of its own to the file, as open(2) makes one: flags and locks are not shared.
  const int kept = flags & ~(O_CREAT | O_EXCL | O_NOFOLLOW | O_DIRECTORY);
  UniqueFd fd(::open(("/proc/self/fd/" + std::to_string(memory)).c_str(), kept | O_CLOEXEC));
  if (!fd) return refused(errno, "open", path.text());
  if ((flags & O_TRUNC) != 0) state_.at(id).file.resize(0);
  tell("open " + path.text());
  return fd;
}

Result<std::size_t> ModelDisk::pwrite(int fd, std::span<const std::byte> data,
                                      std::uint64_t offset_bytes) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, inode_of(fd));
  const ssize_t n = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset_bytes));
  if (n < 0) return refused(errno, "pwrite");
  const auto moved = static_cast<std::size_t>(n);
  state_.at(id).file.write(offset_bytes, data.first(moved));
  tell("pwrite");
  return moved;
}

Status ModelDisk::record_write(int fd, std::uint64_t offset_bytes,
                               std::span<const std::byte> data) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, inode_of(fd));
  state_.at(id).file.write(offset_bytes, data);
  tell("write completed");
  return {};
}

Status ModelDisk::fallocate(int fd, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, inode_of(fd));
  if (::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)) != 0)
    return refused(errno, "fallocate");
  ModelFile& file = state_.at(id).file;
  if (size_bytes > file.size_bytes()) file.resize(size_bytes);
  tell("fallocate");
  return {};
}

Status ModelDisk::ftruncate(int fd, std::uint64_t size_bytes) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, inode_of(fd));
  if (::ftruncate(fd, static_cast<off_t>(size_bytes)) != 0) return refused(errno, "ftruncate");
  state_.at(id).file.resize(size_bytes);
  tell("ftruncate");
  return {};
}

Status ModelDisk::fchmod(int fd, unsigned mode) {
  const MutexLock lock(mutex_);
  STOKER_ASSIGN(const InodeId id, inode_of(fd));
  if (::fchmod(fd, mode) != 0) return refused(errno, "fchmod");
  state_.at(id).mode = mode;
  tell("fchmod");
  return {};
}

Status ModelDisk::sync(int fd) {
  STOKER_ASSIGN(const InodeId id, inode_of(fd));
  ModelInode& inode = state_.at(id);
  if (inode.kind == FileKind::directory) {
    state_.names().sync(id);
  } else {
    inode.file.sync();
  }
  return {};
}

Status ModelDisk::fdatasync(int fd) {
  const MutexLock lock(mutex_);
  STOKER_TRY(sync(fd));
  tell("fdatasync");
  return {};
}

Status ModelDisk::fsync(int fd) {
  const MutexLock lock(mutex_);
  STOKER_TRY(sync(fd));
  tell("fsync");
  return {};
}

Status ModelDisk::close(UniqueFd fd) {
  Status status = std::move(fd).close();
  const MutexLock lock(mutex_);
  tell("close");
  return status;
}

Status ModelDisk::try_lock(int fd, LockMode mode) {
  const MutexLock lock(mutex_);
  const int operation = mode == LockMode::shared ? LOCK_SH : LOCK_EX;
  if (::flock(fd, operation | LOCK_NB) != 0) return refused(errno, "flock");
  tell("flock");
  return {};
}

void ModelDisk::reached(std::string_view crash_point) {
  const MutexLock lock(mutex_);
  tell("reached " + std::string(crash_point));
}

}  // namespace stoker::testing
