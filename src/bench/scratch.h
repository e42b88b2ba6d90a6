/// \file
/// Where benchmarks write: a file without a name, and a directory that removes itself.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/unique_fd.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// A file that has lost its name before its first byte is written: whatever ends the process, the
/// kernel frees the space.
///
/// Thread safety: as File.
class ScratchFile {
 public:
  static Result<ScratchFile> create(FileOps& ops, const std::string& directory,
                                    const File::Options& options);

  File& file() noexcept { return file_; }
  const File& file() const noexcept { return file_; }
  /// Opens the same file again, under another policy or as a mapping, while this object lives.
  std::string reopen_path() const;

 private:
  explicit ScratchFile(File file) : file_(std::move(file)) {}
  File file_;
};

/// A private directory inside another one, for files that need names. Removed with everything in
/// it by the destructor. After a SIGKILL it stays; the next sweep_scratch() finds its lock free and
/// removes it then.
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

/// Removes the scratch directories in `parent` whose processes are gone. Best effort; returns how
/// many it removed.
std::size_t sweep_scratch(FileOps& ops, const std::string& parent);

/// Whether `directory` is one, and has room for `size_bytes` and a reserve, so that a benchmark
/// never fills a disk that others write to. `flag` is the option that the refusal names.
Status check_room(const std::string& directory, std::uint64_t size_bytes, std::string_view flag);

}  // namespace stoker
