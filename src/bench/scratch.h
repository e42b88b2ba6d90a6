/// \file
/// Scratch space for benchmarks: a file without a name, and a directory that removes itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// A file that is unlinked before its first byte is written: however the process ends, the kernel
/// frees the space.
///
/// Thread safety: that of File.
class ScratchFile {
 public:
  static Result<ScratchFile> create(FileOps& ops, const std::string& directory,
                                    const File::Options& options);

  File& file() noexcept { return file_; }
  const File& file() const noexcept { return file_; }
  /// Returns a path to open the same file again, under another policy or as a mapping. Valid while
  /// this object exists.
  std::string reopen_path() const;

 private:
  explicit ScratchFile(File file) : file_(std::move(file)) {}
  File file_;
};

/// A private directory inside another one, for files that need names. The destructor removes it
/// with its contents. After a SIGKILL it remains; the next sweep_scratch() finds its lock free and
/// removes it.
///
/// Thread safety: none.
class ScratchDirectory {
 public:
  static Result<ScratchDirectory> create(FileOps& ops, const std::string& parent);
  ScratchDirectory(ScratchDirectory&&) noexcept = default;
  ScratchDirectory& operator=(ScratchDirectory&&) = delete;
  ~ScratchDirectory();

  const std::string& path() const noexcept { return path_.text(); }

 private:
  ScratchDirectory(FileOps& ops, PathAt path, UniqueFd lock)
      : ops_(&ops), path_(std::move(path)), lock_(std::move(lock)) {}

  FileOps* ops_;
  PathAt path_;
  UniqueFd lock_;
};

/// Removes the scratch directories in `parent` whose processes have ended. Best effort; returns how
/// many it found.
std::size_t sweep_scratch(FileOps& ops, const std::string& parent);

/// Checks that `directory` is a directory (else `invalid_argument`) and has room for `size_bytes`
/// and a reserve (else `no_space`), so that a benchmark never fills a disk that others write to.
/// `flag` is the option that the error names.
Status check_room(const std::string& directory, std::uint64_t size_bytes, std::string_view flag);

}  // namespace stoker
