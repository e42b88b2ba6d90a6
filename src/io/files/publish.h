#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/files/file_ops.h"
#include "stoker/io.h"

namespace stoker {

/// A file that is written in pieces under a private name in the same directory and then published.
/// Crash points of commit(): publish_file.staged, .synced, .switched, .durable.
///
/// Thread safety: none.
class FilePublisher {
 public:
  static Result<FilePublisher> create(FileOps& ops, const PathAt& path);
  FilePublisher(FilePublisher&& other) noexcept;
  FilePublisher& operator=(FilePublisher&&) = delete;
  ~FilePublisher();  ///< Removes the staged file unless it was committed.

  int fd() const noexcept { return fd_.get(); }
  /// After a failure the file must be abandoned.
  Status append(std::span<const std::byte> data);
  /// Makes the bytes durable and renames the file to `path`, atomically and durably; see
  /// publish_file().
  Status commit(IfExists if_exists) &&;

 private:
  FilePublisher(FileOps& ops, PathAt path) : ops_(&ops), path_(path), staged_(std::move(path)) {}
  Status sync();

  FileOps* ops_;
  PathAt path_;
  PathAt staged_;
  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
  bool is_staged_ = false;  // whether the staged file exists
};

/// Writes `data` to the file `path`, atomically and durably, through a FilePublisher.
///
/// On failure `path` has the old bytes, or the new ones if only the last step failed; no staged
/// file is left unless its removal fails too. With IfExists::fail the result is `already_exists` if
/// the name is taken; of several concurrent publishers exactly one succeeds.
Status publish_file(FileOps& ops, const PathAt& path, std::span<const std::byte> data,
                    IfExists if_exists = IfExists::replace);

/// Renames the finished directory `staged` to `path`, atomically and durably: every file and
/// directory in it is fsynced, then it is renamed without replacing anything, then the parent is
/// fsynced. Crash points: publish_directory.synced, .renamed, .durable.
///
/// Both names must be on one filesystem. `already_exists` if `path` is taken. On failure the
/// directory is still at `staged`, or at `path` if only the last step failed. Symbolic links inside
/// are kept and not followed.
Status publish_directory(FileOps& ops, const PathAt& staged, const PathAt& path);

/// Returns the parent directory of `path`; "." for a bare name.
std::string parent_of(const std::string& path);

}  // namespace stoker
