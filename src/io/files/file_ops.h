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

/// Whether lock() shares the file with other readers or keeps everybody else out.
enum class LockMode : std::uint8_t { shared, exclusive };

/// What a name stands for. A symbolic link is one, whatever it points to.
enum class FileKind : std::uint8_t { regular, directory, symlink, other };

/// What lstat(2) tells about a name.
struct FileInfo {
  FileKind kind = FileKind::other;
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t link_count = 0;
  std::uint64_t size_bytes = 0;
  std::int64_t modified_ns = 0;

  friend bool operator==(const FileInfo&, const FileInfo&) = default;
};

/// The same of an open file, or of a name that was looked up already.
FileInfo file_info_of(const struct stat& info);

/// A name in a directory.
struct DirectoryName {
  std::string name;
  std::uint64_t inode = 0;
  FileKind kind = FileKind::other;

  friend bool operator==(const DirectoryName&, const DirectoryName&) = default;
};

/// The system calls that durability depends on, behind one seam so that tests can fail each of
/// them, or keep what is durable apart from what is not. One method is one system call.
///
/// No method retries. fsync in particular is final: after a failed one the kernel may have dropped
/// the dirty pages, so the file is abandoned and written anew under another name.
///
/// Thread safety: implementations are thread-safe.
class FileOps {
 public:
  virtual ~FileOps() = default;

  /// open(2) with O_CLOEXEC and mode 0644.
  virtual Result<UniqueFd> open(const PathAt& path, int flags) = 0;
  /// May write fewer bytes than asked for.
  virtual Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                                     std::uint64_t offset_bytes) = 0;
  /// fallocate(2), never posix_fallocate, which writes zeros where the filesystem has no
  /// allocation: `unsupported` is then the answer, and the caller goes on without.
  virtual Status fallocate(int fd, std::uint64_t size_bytes) = 0;
  virtual Status ftruncate(int fd, std::uint64_t size_bytes) = 0;
  /// fchmod(2): for files that nobody shall change once they are committed.
  virtual Status fchmod(int fd, unsigned mode) = 0;
  virtual Status fdatasync(int fd) = 0;
  virtual Status fsync(int fd) = 0;
  virtual Status close(UniqueFd fd) = 0;

  virtual Status rename(const PathAt& from, const PathAt& to) = 0;
  /// renameat2 with RENAME_NOREPLACE: `already_exists` if `to` is there, `unsupported` where the
  /// filesystem lacks the flag (NFS).
  virtual Status rename_noreplace(const PathAt& from, const PathAt& to) = 0;
  virtual Status link(const PathAt& from, const PathAt& to) = 0;
  virtual Status symlink(const std::string& target, const PathAt& path) = 0;
  /// What a symbolic link points to; `invalid_argument` if `path` is none.
  virtual Result<std::string> read_link(const PathAt& path) = 0;
  /// lstat(2).
  virtual Result<FileInfo> info_of(const PathAt& path) = 0;
  virtual Status unlink(const PathAt& path) = 0;
  virtual Status mkdir(const PathAt& path) = 0;
  virtual Status rmdir(const PathAt& path) = 0;
  /// The names in a directory in bytewise order, without "." and "..".
  virtual Result<std::vector<DirectoryName>> list_names(const PathAt& path) = 0;
  /// Opens, fsyncs and closes a directory. `unsupported` where the filesystem refuses (EINVAL):
  /// names are then not durable there, and the caller says so.
  virtual Status fsync_dir(const PathAt& path) = 0;
  /// flock(2) without waiting: `unavailable` while somebody else holds it.
  virtual Status try_lock(int fd, LockMode mode) = 0;

  /// A named moment between two steps of a protocol (docs/durability.md lists them). Does nothing
  /// here; crash tests end the process or cut the model disk's power at each of them.
  virtual void reached(std::string_view crash_point) = 0;

  // In other words:

  /// list_names(), of which the names alone are told.
  Result<std::vector<std::string>> list(const PathAt& path);
  /// info_of(), of which the kind alone is told.
  Result<FileKind> kind_of(const PathAt& path);
};

FileOps& posix_file_ops();

}  // namespace stoker
