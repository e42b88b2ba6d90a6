#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "stoker/status.h"

namespace stoker {

/// Whether lock() shares the file with other readers or keeps everybody else out.
enum class LockMode : std::uint8_t { shared, exclusive };

/// What a name stands for. A symbolic link is one, whatever it points to.
enum class FileKind : std::uint8_t { regular, directory, symlink, other };

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
  virtual Result<UniqueFd> open(const std::string& path, int flags) = 0;
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

  virtual Status rename(const std::string& from, const std::string& to) = 0;
  /// renameat2 with RENAME_NOREPLACE: `already_exists` if `to` is there, `unsupported` where the
  /// filesystem lacks the flag (NFS).
  virtual Status rename_noreplace(const std::string& from, const std::string& to) = 0;
  virtual Status link(const std::string& from, const std::string& to) = 0;
  virtual Status symlink(const std::string& target, const std::string& path) = 0;
  /// What a symbolic link points to; `invalid_argument` if `path` is none.
  virtual Result<std::string> read_link(const std::string& path) = 0;
  /// lstat(2), of which the kind alone is told.
  virtual Result<FileKind> kind_of(const std::string& path) = 0;
  virtual Status unlink(const std::string& path) = 0;
  virtual Status mkdir(const std::string& path) = 0;
  virtual Status rmdir(const std::string& path) = 0;
  /// Names in a directory in bytewise order, without "." and "..".
  virtual Result<std::vector<std::string>> list(const std::string& path) = 0;
  /// Opens, fsyncs and closes a directory. `unsupported` where the filesystem refuses (EINVAL):
  /// names are then not durable there, and the caller says so.
  virtual Status fsync_dir(const std::string& path) = 0;
  /// flock(2) without waiting: `unavailable` while somebody else holds it.
  virtual Status try_lock(int fd, LockMode mode) = 0;

  /// A named moment between two steps of a protocol (docs/durability.md lists them). Does nothing
  /// here; crash tests end the process or cut the model disk's power at each of them.
  virtual void reached(std::string_view crash_point) = 0;
};

FileOps& posix_file_ops();

}  // namespace stoker
