#include "io/file_ops.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstdio>
#include <memory>

namespace stoker {
namespace {

Status done(int result, std::string_view op, std::string_view path) {
  return result == 0 ? Status() : Status::from_errno(errno, op, path);
}

class PosixFileOps final : public FileOps {
 public:
  Result<UniqueFd> open(const std::string& path, int flags) override {
    const int fd = ::open(path.c_str(), flags | O_CLOEXEC, 0644);
    if (fd < 0) return Status::from_errno(errno, "open", path);
    return UniqueFd(fd);
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

  Status rename(const std::string& from, const std::string& to) override {
    return done(std::rename(from.c_str(), to.c_str()), "rename", to);
  }
  Status rename_noreplace(const std::string& from, const std::string& to) override {
    if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return {};
    if (errno == EINVAL || errno == ENOSYS)  // EINVAL is how a filesystem refuses the flag
      return Status(Code::unsupported, "renameat2 " + to + ": RENAME_NOREPLACE not supported here",
                    errno);
    return Status::from_errno(errno, "renameat2", to);
  }
  Status link(const std::string& from, const std::string& to) override {
    return done(::link(from.c_str(), to.c_str()), "link", to);
  }
  Status symlink(const std::string& target, const std::string& path) override {
    return done(::symlink(target.c_str(), path.c_str()), "symlink", path);
  }
  Result<std::string> read_link(const std::string& path) override {
    std::string target(PATH_MAX, '\0');  // the longest the kernel makes
    const ssize_t size = ::readlink(path.c_str(), target.data(), target.size());
    if (size < 0) return Status::from_errno(errno, "readlink", path);
    target.resize(static_cast<std::size_t>(size));
    return target;
  }
  Result<FileKind> kind_of(const std::string& path) override {
    struct stat info{};
    if (::lstat(path.c_str(), &info) != 0) return Status::from_errno(errno, "lstat", path);
    if (S_ISREG(info.st_mode)) return FileKind::regular;
    if (S_ISDIR(info.st_mode)) return FileKind::directory;
    return S_ISLNK(info.st_mode) ? FileKind::symlink : FileKind::other;
  }
  Status unlink(const std::string& path) override {
    return done(::unlink(path.c_str()), "unlink", path);
  }
  Status mkdir(const std::string& path) override {
    return done(::mkdir(path.c_str(), 0755), "mkdir", path);
  }
  Status rmdir(const std::string& path) override {
    return done(::rmdir(path.c_str()), "rmdir", path);
  }

  Result<std::vector<std::string>> list(const std::string& path) override {
    const std::unique_ptr<DIR, int (*)(DIR*)> dir(::opendir(path.c_str()), ::closedir);
    if (!dir) return Status::from_errno(errno, "opendir", path);
    std::vector<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* entry = ::readdir(dir.get());
      if (entry == nullptr) break;
      const std::string_view name(entry->d_name);
      if (name != "." && name != "..") names.emplace_back(name);
    }
    if (errno != 0) return Status::from_errno(errno, "readdir", path);
    std::sort(names.begin(), names.end());
    return names;
  }

  Status fsync_dir(const std::string& path) override {
    STOKER_ASSIGN(const UniqueFd dir, open(path, O_RDONLY | O_DIRECTORY));
    if (::fsync(dir.get()) == 0) return {};
    if (errno == EINVAL)
      return Status(Code::unsupported,
                    "fsync " + path + ": this filesystem cannot make names durable", errno);
    return Status::from_errno(errno, "fsync", path);
  }

  Status try_lock(int fd, LockMode mode) override {
    const int operation = mode == LockMode::shared ? LOCK_SH : LOCK_EX;
    return done(::flock(fd, operation | LOCK_NB), "flock", "");
  }

  void reached(std::string_view /*crash_point*/) override {}
};

}  // namespace

FileOps& posix_file_ops() {
  static PosixFileOps ops;
  return ops;
}

}  // namespace stoker
