#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "io/files/file_ops.h"

namespace stoker {

/// What publish_file() does when there is a file of that name.
enum class IfExists : std::uint8_t { replace, fail };

/// A file that is written piece by piece under a private name beside its own, and then published.
/// Crash points of commit(): publish_file.staged, .synced, .switched, .durable.
///
/// Thread safety: none.
class FilePublisher {
 public:
  static Result<FilePublisher> create(FileOps& ops, const PathAt& path);
  FilePublisher(FilePublisher&& other) noexcept;
  FilePublisher& operator=(FilePublisher&&) = delete;
  ~FilePublisher();  ///< Removes what was not committed.

  int fd() const noexcept { return fd_.get(); }
  /// After a failure the file is to be abandoned.
  Status append(std::span<const std::byte> data);
  /// Makes the bytes durable and gives them the name, atomically and durably: see publish_file().
  Status commit(IfExists if_exists) &&;

 private:
  FilePublisher(FileOps& ops, PathAt path) : ops_(&ops), path_(path), staged_(std::move(path)) {}
  Status sync();

  FileOps* ops_;
  PathAt path_;
  PathAt staged_;
  UniqueFd fd_;
  std::uint64_t size_bytes_ = 0;
  bool is_staged_ = false;  // whether there is something to remove
};

/// Makes `data` the file `path`, atomically and durably, as a FilePublisher does.
///
/// On failure `path` holds the old bytes, or the new ones if only the last step failed; nothing is
/// left beside it unless the disk refuses the clean-up too. With IfExists::fail a name that is
/// taken is `already_exists`, and of several publishers at once one succeeds.
Status publish_file(FileOps& ops, const PathAt& path, std::span<const std::byte> data,
                    IfExists if_exists = IfExists::replace);

/// Gives the finished directory `staged` its final name, atomically and durably: every file and
/// directory in it is fsynced, then it is renamed without replacing anything, then the parent is
/// fsynced. Crash points: publish_directory.synced, .renamed, .durable.
///
/// Both names must be on one filesystem. `already_exists` if `path` is taken. On failure `staged`
/// is where it was, or at `path` if only the last step failed. Symbolic links inside are kept and
/// not followed.
Status publish_directory(FileOps& ops, const PathAt& staged, const PathAt& path);

/// The directory that holds `path`'s name; "." for a bare name.
std::string parent_of(const std::string& path);

}  // namespace stoker
