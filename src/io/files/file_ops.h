#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "io/files/path_at.h"
#include "stoker/status.h"

namespace stoker {

/// Whether try_lock() shares the lock with other holders or excludes them.
enum class LockMode : std::uint8_t { shared, exclusive };

/// The type of a name. A symbolic link is `symlink`, whatever its target.
enum class FileKind : std::uint8_t { regular, directory, symlink, other };

/// What lstat(2) reports about a name.
struct FileInfo {
  FileKind kind = FileKind::other;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t link_count = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

/// Converts the result of a stat(2) call.
FileInfo file_info_of(const struct stat& info);

/// A name in a directory.
struct DirectoryName {
  std::string name;
  std::uint64_t inode = 0;
  FileKind kind = FileKind::other;

  friend bool operator==(const DirectoryName&, const DirectoryName&) = default;
};

/// The system calls that durability depends on, behind one interface, so that tests can make each
/// of them fail, or separate durable data from data that is not. A method is one system call unless
/// its comment says otherwise.
///
/// No method retries. fsync in particular is final: after a failure the kernel may have dropped the
/// dirty pages, so the file is abandoned and written again under another name.
///
/// Thread safety: implementations are thread-safe.
class FileOps {
 public:
  virtual ~FileOps() = default;

  /// open(2) with O_CLOEXEC and mode 0644.
  virtual Result<UniqueFd> open(const PathAt& path, int flags) = 0;
  /// May write fewer bytes than requested.
  virtual Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                                     std::uint64_t offset_bytes) = 0;
  /// fallocate(2), never posix_fallocate(3), which writes zeros if the filesystem has no
  /// allocation. `unsupported` in that case; the caller continues without.
  virtual Status fallocate(int fd, std::uint64_t size_bytes) = 0;
  virtual Status ftruncate(int fd, std::uint64_t size_bytes) = 0;
  /// fchmod(2), for files that must not change once they are committed.
  virtual Status fchmod(int fd, unsigned mode) = 0;
  virtual Status fdatasync(int fd) = 0;
  virtual Status fsync(int fd) = 0;
  virtual Status close(UniqueFd fd) = 0;

  virtual Status rename(const PathAt& from, const PathAt& to) = 0;
  /// renameat2(2) with RENAME_NOREPLACE: `already_exists` if `to` exists, `unsupported` if the
  /// filesystem lacks the flag (NFS).
  virtual Status rename_noreplace(const PathAt& from, const PathAt& to) = 0;
  virtual Status link(const PathAt& from, const PathAt& to) = 0;
  virtual Status symlink(const std::string& target, const PathAt& path) = 0;
  /// Returns the target of a symbolic link; `invalid_argument` if `path` is not one.
  virtual Result<std::string> read_link(const PathAt& path) = 0;
  /// lstat(2).
  virtual Result<FileInfo> info_of(const PathAt& path) = 0;
  virtual Status unlink(const PathAt& path) = 0;
  virtual Status mkdir(const PathAt& path) = 0;
  virtual Status rmdir(const PathAt& path) = 0;
  /// Returns the names in a directory in bytewise order, without "." and "..".
  virtual Result<std::vector<DirectoryName>> list_names(const PathAt& path) = 0;
  /// Opens, fsyncs and closes a directory. `unsupported` if the filesystem refuses (EINVAL): names
  /// are then not durable there, and the caller must report it.
  virtual Status fsync_dir(const PathAt& path) = 0;
  /// flock(2) without waiting: `unavailable` while another holder has the lock.
  virtual Status try_lock(int fd, LockMode mode) = 0;

  /// Marks a named point between two steps of a protocol (docs/durability.md lists them). Does
  /// nothing in production; crash tests end the process or cut the model disk's power there.
  virtual void reached(std::string_view crash_point) = 0;

  // Built on the methods above:

  /// Returns only the names of list_names().
  Result<std::vector<std::string>> list(const PathAt& path);
  /// Returns only the kind of info_of().
  Result<FileKind> kind_of(const PathAt& path);
};

FileOps& posix_file_ops();

}  // namespace stoker
