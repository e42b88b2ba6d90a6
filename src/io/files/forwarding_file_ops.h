#pragma once

#include <string>
#include <utility>
#include <vector>

#include "io/files/file_ops.h"

namespace stoker {

/// Forwards every call to `target`, which must outlive it. A base class for wrappers that change a
/// few calls.
///
/// Thread safety: that of the target.
class ForwardingFileOps : public FileOps {
 public:
  explicit ForwardingFileOps(FileOps& target) : target_(target) {}

  Result<UniqueFd> open(const PathAt& path, int flags) override {
    return target_.open(path, flags);
  }
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override {
    return target_.pwrite(fd, data, offset_bytes);
  }
  Status fallocate(int fd, std::uint64_t size_bytes) override {
    return target_.fallocate(fd, size_bytes);
  }
  Status ftruncate(int fd, std::uint64_t size_bytes) override {
    return target_.ftruncate(fd, size_bytes);
  }
  Status fchmod(int fd, unsigned mode) override { return target_.fchmod(fd, mode); }
  Status fdatasync(int fd) override { return target_.fdatasync(fd); }
  Status fsync(int fd) override { return target_.fsync(fd); }
  Status close(UniqueFd fd) override { return target_.close(std::move(fd)); }
  Status rename(const PathAt& from, const PathAt& to) override { return target_.rename(from, to); }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    return target_.rename_noreplace(from, to);
  }
  Status link(const PathAt& from, const PathAt& to) override { return target_.link(from, to); }
  Status symlink(const std::string& target, const PathAt& path) override {
    return target_.symlink(target, path);
  }
  Result<std::string> read_link(const PathAt& path) override { return target_.read_link(path); }
  Result<FileInfo> info_of(const PathAt& path) override { return target_.info_of(path); }
  Status unlink(const PathAt& path) override { return target_.unlink(path); }
  Status mkdir(const PathAt& path) override { return target_.mkdir(path); }
  Status rmdir(const PathAt& path) override { return target_.rmdir(path); }
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    return target_.list_names(path);
  }
  Status fsync_dir(const PathAt& path) override { return target_.fsync_dir(path); }
  Status try_lock(int fd, LockMode mode) override { return target_.try_lock(fd, mode); }
  void reached(std::string_view crash_point) override { target_.reached(crash_point); }

 protected:
  FileOps& target() { return target_; }

 private:
  FileOps& target_;
};

}  // namespace stoker
