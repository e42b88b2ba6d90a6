#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "io/files/file_ops.h"

namespace stoker {

/// A checkpoint directory in memory, for fuzz targets that read checkpoint directories: a file
/// costs a tenth of one on tmpfs. Names are kept in a map and bytes in strings. All descriptors
/// refer to one memfd, which contains the bytes of the file that was opened last for reading:
/// enough for code that reads a file to its end before it opens the next. Nothing is durable, there
/// are no links, and locks exist only in this class.
///
/// Thread safety: none.
class MemoryFileOps final : public FileOps {
 public:
  MemoryFileOps();

  /// Returns a directory with these files. This object must outlive it.
  CheckpointDirectory directory();
  /// Removes all files; none may be open.
  void clear();
  /// Creates or replaces a file with any name below the directory. Directories need not be created.
  void write(std::string_view name, std::string_view text);
  /// Returns the text of a file; nullopt if there is none.
  std::optional<std::string> find(std::string_view name) const;

  Result<UniqueFd> open(const PathAt& path, int flags) override;
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override;
  Status close(UniqueFd fd) override;
  Status rename(const PathAt& from, const PathAt& to) override;
  Result<std::string> read_link(const PathAt& path) override;
  Result<FileInfo> info_of(const PathAt& path) override;
  Status unlink(const PathAt& path) override;
  Status mkdir(const PathAt& path) override;
  Status rmdir(const PathAt& path) override;
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override;
  Status try_lock(int fd, LockMode mode) override;
  void reached(std::string_view) override {}

  // Not used by the fuzz targets: these abort.
  Status fallocate(int, std::uint64_t) override { return unasked(); }
  Status ftruncate(int, std::uint64_t) override { return unasked(); }
  Status fchmod(int, unsigned) override { return unasked(); }
  Status fdatasync(int) override { return unasked(); }
  Status fsync(int) override { return unasked(); }
  Status rename_noreplace(const PathAt&, const PathAt&) override { return unasked(); }
  Status link(const PathAt&, const PathAt&) override { return unasked(); }
  Status symlink(const std::string&, const PathAt&) override { return unasked(); }
  Status fsync_dir(const PathAt&) override { return unasked(); }

 private:
  struct File {
    std::uint64_t inode = 0;
    std::string text;
    bool is_locked = false;  // exclusively, until the file is removed
  };
  using Files = std::map<std::string, std::shared_ptr<File>, std::less<>>;

  static Status unasked();
  void fill(const std::string& text);

  Files files_;
  std::vector<std::shared_ptr<File>> open_;  // by descriptor; entries of closed ones are reused
  std::uint64_t last_inode_ = 0;
  UniqueFd memory_;
  std::size_t memory_bytes_ = 0;
};

}  // namespace stoker
