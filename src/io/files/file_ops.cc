#include "io/files/file_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>  // RENAME_NOREPLACE
#include <memory>
#include <utility>

#include "io/files/open_below.h"

namespace stoker {
namespace {

Status done(int result, std::string_view op, std::string_view path) {
  return result == 0 ? Status() : Status::from_errno(errno, op, path);
}

FileKind kind_of_mode(mode_t mode) {
  if (S_ISREG(mode)) return FileKind::regular;
  if (S_ISDIR(mode)) return FileKind::directory;
  return S_ISLNK(mode) ? FileKind::symlink : FileKind::other;
}

/// The last component of a path, and the directory to look it up in. The calls that use it do not
/// follow a link in the last component; below a root, no other component is a link either.
class LastName {
 public:
  static Result<LastName> of(const PathAt& path, std::string_view op,
                             Mounts mounts = Mounts::cross) {
    LastName last;
    const std::string_view name = path.name();
    const std::size_t slash = path.is_below() ? name.rfind('/') : std::string_view::npos;
    last.directory_fd_ = path.root_fd();
    last.name_ = slash == std::string_view::npos ? name : name.substr(slash + 1);
    if (!path.is_below()) return last;
    if (last.name_.empty() || last.name_ == "." || last.name_ == "..")
      return Status::from_errno(EINVAL, op, path.text());
    if (slash == std::string_view::npos) return last;
    Result<UniqueFd> fd = open_below(path.root_fd(), name.substr(0, slash), O_PATH | O_DIRECTORY,
                                     LookupBelow::automatic, mounts);
    if (!fd.ok()) return Status::from_errno(fd.status().os_error(), op, path.text());
    last.directory_ = *std::move(fd);
    last.directory_fd_ = last.directory_.get();
    return last;
  }

  int fd() const { return directory_fd_; }
  const char* name() const { return name_.c_str(); }

 private:
  UniqueFd directory_;
  int directory_fd_ = AT_FDCWD;
  std::string name_;
};

Result<UniqueFd> open_at(const PathAt& path, int flags, std::string_view op) {
  if (!path.is_below()) {
    UniqueFd fd(::open(path.text().c_str(), flags | O_CLOEXEC, 0644));
    if (!fd) return Status::from_errno(errno, op, path.text());
    return fd;
  }
  Result<UniqueFd> fd = open_below(path.root_fd(), path.name(), flags);
  if (!fd.ok()) return Status::from_errno(fd.status().os_error(), op, path.text());
  return fd;
}

class PosixFileOps final : public FileOps {
 public:
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    return open_at(path, flags, "open");
  }
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override {
    const ssize_t n = ::pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset_bytes));
    if (n < 0) return Status::from_errno(errno, "pwrite", "");
    return static_cast<std::size_t>(n);
  }
  Status fallocate(int fd, std::uint64_t size_bytes) override {
    return done(::fallocate(fd, 0, 0, static_cast<off_t>(size_bytes)), "fallocate", "");
  }
  Status ftruncate(int fd, std::uint64_t size_bytes) override {
    return done(::ftruncate(fd, static_cast<off_t>(size_bytes)), "ftruncate", "");
  }
  Status fchmod(int fd, unsigned mode) override { return done(::fchmod(fd, mode), "fchmod", ""); }
  Status fdatasync(int fd) override { return done(::fdatasync(fd), "fdatasync", ""); }
  Status fsync(int fd) override { return done(::fsync(fd), "fsync", ""); }
  Status close(UniqueFd fd) override { return std::move(fd).close(); }

  Status rename(const PathAt& from, const PathAt& to) override {
    return rename_with(from, to, 0, "rename");
  }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    Status status = rename_with(from, to, RENAME_NOREPLACE, "renameat2");
    // EINVAL is how a filesystem refuses the flag.
    if (status.os_error() != EINVAL && status.os_error() != ENOSYS) return status;
    return Status(Code::unsupported,
                  "renameat2 " + to.text() + ": RENAME_NOREPLACE not supported here",
                  status.os_error());
  }
  Status link(const PathAt& from, const PathAt& to) override {
    STOKER_ASSIGN(const LastName old_name, LastName::of(from, "link"));
    STOKER_ASSIGN(const LastName new_name, LastName::of(to, "link"));
    return done(::linkat(old_name.fd(), old_name.name(), new_name.fd(), new_name.name(), 0), "link",
                to.text());
  }
  Status symlink(const std::string& target, const PathAt& path) override {
    STOKER_ASSIGN(const LastName last, LastName::of(path, "symlink"));
    return done(::symlinkat(target.c_str(), last.fd(), last.name()), "symlink", path.text());
  }
  Result<std::string> read_link(const PathAt& path) override {
    STOKER_ASSIGN(const LastName last, LastName::of(path, "readlink"));
    std::string target(PATH_MAX, '\0');  // the longest target that the kernel allows
    const ssize_t size = ::readlinkat(last.fd(), last.name(), target.data(), target.size());
    if (size < 0) return Status::from_errno(errno, "readlink", path.text());
    target.resize(static_cast<std::size_t>(size));
    return target;
  }
  Result<FileInfo> info_of(const PathAt& path) override {
    struct stat info{};
    if (path.is_below() && path.name().empty()) {
      STOKER_TRY(done(::fstat(path.root_fd(), &info), "fstat", path.text()));
    } else {
      STOKER_ASSIGN(const LastName last, LastName::of(path, "lstat"));
      STOKER_TRY(done(::fstatat(last.fd(), last.name(), &info, AT_SYMLINK_NOFOLLOW), "lstat",
                      path.text()));
    }
    return file_info_of(info);
  }
  // unlink() and rmdir() do not enter a mounted filesystem below the root: EXDEV.
  Status unlink(const PathAt& path) override {
    STOKER_ASSIGN(const LastName last, LastName::of(path, "unlink", Mounts::stay));
    return done(::unlinkat(last.fd(), last.name(), 0), "unlink", path.text());
  }
  Status mkdir(const PathAt& path) override {
    STOKER_ASSIGN(const LastName last, LastName::of(path, "mkdir"));
    return done(::mkdirat(last.fd(), last.name(), 0755), "mkdir", path.text());
  }
  Status rmdir(const PathAt& path) override {
    STOKER_ASSIGN(const LastName last, LastName::of(path, "rmdir", Mounts::stay));
    return done(::unlinkat(last.fd(), last.name(), AT_REMOVEDIR), "rmdir", path.text());
  }

  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    STOKER_ASSIGN(UniqueFd fd, open_at(path, O_RDONLY | O_DIRECTORY, "opendir"));
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::fdopendir(fd.get()), ::closedir);
    if (!dir) return Status::from_errno(errno, "opendir", path.text());
    static_cast<void>(fd.release());  // the stream owns it
    std::vector<DirectoryName> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());
      if (entry == nullptr) break;
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..") names.push_back(name_of(::dirfd(dir.get()), *entry));
    }
    if (errno != 0) return Status::from_errno(errno, "readdir", path.text());
    std::ranges::sort(names, {}, &DirectoryName::name);
    return names;
  }

  Status fsync_dir(const PathAt& path) override {
    STOKER_ASSIGN(const UniqueFd dir, open_at(path, O_RDONLY | O_DIRECTORY, "open"));
    if (::fsync(dir.get()) == 0) return {};
    if (errno == EINVAL)
      return Status(Code::unsupported,
                    "fsync " + path.text() + ": this filesystem cannot make names durable", errno);
    return Status::from_errno(errno, "fsync", path.text());
  }

  Status try_lock(int fd, LockMode mode) override {
    const int operation = mode == LockMode::shared ? LOCK_SH : LOCK_EX;
    return done(::flock(fd, operation | LOCK_NB), "flock", "");
  }

  void reached(std::string_view /*crash_point*/) override {}

 private:
  static Status rename_with(const PathAt& from, const PathAt& to, unsigned flags,
                            std::string_view op) {
    STOKER_ASSIGN(const LastName old_name, LastName::of(from, op));
    STOKER_ASSIGN(const LastName new_name, LastName::of(to, op));
    return done(::renameat2(old_name.fd(), old_name.name(), new_name.fd(), new_name.name(), flags),
                op, to.text());
  }

  /// Calls fstatat(2) for the kind if the directory entry does not have it.
  static DirectoryName name_of(int directory_fd, const dirent& entry) {
    DirectoryName name{.name = entry.d_name, .inode = entry.d_ino};
    switch (entry.d_type) {
      case DT_REG: name.kind = FileKind::regular; break;
      case DT_DIR: name.kind = FileKind::directory; break;
      case DT_LNK: name.kind = FileKind::symlink; break;
      case DT_UNKNOWN: {
        struct stat info{};
        if (::fstatat(directory_fd, entry.d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
          name.kind = kind_of_mode(info.st_mode);
        break;
      }
      default: break;
    }
    return name;
  }
};

}  // namespace

FileInfo file_info_of(const struct stat& info) {
  constexpr std::int64_t kNsPerS = 1'000'000'000;
  return {.kind = kind_of_mode(info.st_mode),
          .device = info.st_dev,
          .inode = info.st_ino,
          .link_count = info.st_nlink,
          .size_bytes = static_cast<std::uint64_t>(info.st_size),
          .modified_ns = info.st_mtim.tv_sec * kNsPerS + info.st_mtim.tv_nsec};
}

Result<std::vector<std::string>> FileOps::list(const PathAt& path) {
  STOKER_ASSIGN(std::vector<DirectoryName> found, list_names(path));
  std::vector<std::string> names;
  names.reserve(found.size());
  for (DirectoryName& name : found) names.push_back(std::move(name.name));
  return names;
}

Result<FileKind> FileOps::kind_of(const PathAt& path) {
  STOKER_ASSIGN(const FileInfo info, info_of(path));
  return info.kind;
}

FileOps& posix_file_ops() {
  static PosixFileOps ops;
  return ops;
}

}  // namespace stoker
