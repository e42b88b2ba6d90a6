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

/// A checkpoint directory in memory, for fuzz targets of what is found there: a file costs a tenth
/// of what it costs on tmpfs. Names are kept in a map and bytes in strings. A descriptor is that of
/// one memfd, which is filled with the bytes of the file that was opened last: enough for those who
/// open a file, read it to its end and then open the next one. Nothing is durable, there are no
/// links, and a lock is known to this class alone.
///
/// Thread safety: none.
class MemoryFileOps final : public FileOps {
 public:
  MemoryFileOps();

  /// A place whose names are these.
  CheckpointDirectory directory();
  /// Of everything; nothing in it may be open.
  void clear();
  /// Any name below the directory. Directories have no bytes and need not be made.
  void write(std::string_view name, std::string_view text);
  /// What a file says; nothing if there is none.
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

  // Nobody here asks for these.
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
    bool is_locked = false;  // by whoever has made it, until it is gone
  };
  using Files = std::map<std::string, std::shared_ptr<File>, std::less<>>;

  static Status unasked();
  void fill(const std::string& text);

  Files files_;
  std::vector<std::shared_ptr<File>> open_;  // by descriptor; what is closed is replaced
  std::uint64_t last_inode_ = 0;
  UniqueFd memory_;
  std::size_t memory_bytes_ = 0;
};

}  // namespace stoker
