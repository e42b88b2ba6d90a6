#pragma once

#include <functional>
#include <string_view>
#include <utility>

#include "io/files/file_ops.h"

namespace stoker::testing {

/// Calls a function before each call that has to do with names or syncs; what the function returns,
/// unless it is OK, is the call's answer, and nothing is done.
///
/// Thread safety: as the function's and the target's.
class HookedFileOps : public FileOps {
 public:
  /// `op` is the method's name; `path` is null for calls on descriptors, and the new name of two.
  using Hook = std::function<Status(std::string_view op, const PathAt* path)>;

  HookedFileOps(FileOps& target, Hook hook) : target_(target), hook_(std::move(hook)) {}

  Result<UniqueFd> open(const PathAt& path, int flags) override {
    STOKER_TRY(hook_("open", &path));
    return target_.open(path, flags);
  }
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override {
    STOKER_TRY(hook_("pwrite", nullptr));
    return target_.pwrite(fd, data, offset_bytes);
  }
  Status fallocate(int fd, std::uint64_t size_bytes) override {
    STOKER_TRY(hook_("fallocate", nullptr));
    return target_.fallocate(fd, size_bytes);
  }
  Status ftruncate(int fd, std::uint64_t size_bytes) override {
    STOKER_TRY(hook_("ftruncate", nullptr));
    return target_.ftruncate(fd, size_bytes);
  }
  Status fchmod(int fd, unsigned mode) override {
    STOKER_TRY(hook_("fchmod", nullptr));
    return target_.fchmod(fd, mode);
  }
  Status fdatasync(int fd) override {
    STOKER_TRY(hook_("fdatasync", nullptr));
    return target_.fdatasync(fd);
  }
  Status fsync(int fd) override {
    STOKER_TRY(hook_("fsync", nullptr));
    return target_.fsync(fd);
  }
  Status close(UniqueFd fd) override {
    STOKER_TRY(hook_("close", nullptr));
    return target_.close(std::move(fd));
  }
  Status rename(const PathAt& from, const PathAt& to) override {
    STOKER_TRY(hook_("rename", &to));
    return target_.rename(from, to);
  }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    STOKER_TRY(hook_("rename_noreplace", &to));
    return target_.rename_noreplace(from, to);
  }
  Status link(const PathAt& from, const PathAt& to) override {
    STOKER_TRY(hook_("link", &to));
    return target_.link(from, to);
  }
  Status symlink(const std::string& target, const PathAt& path) override {
    STOKER_TRY(hook_("symlink", &path));
    return target_.symlink(target, path);
  }
  Result<std::string> read_link(const PathAt& path) override {
    STOKER_TRY(hook_("read_link", &path));
    return target_.read_link(path);
  }
  Result<FileInfo> info_of(const PathAt& path) override {
    STOKER_TRY(hook_("info_of", &path));
    return target_.info_of(path);
  }
  Status unlink(const PathAt& path) override {
    STOKER_TRY(hook_("unlink", &path));
    return target_.unlink(path);
  }
  Status mkdir(const PathAt& path) override {
    STOKER_TRY(hook_("mkdir", &path));
    return target_.mkdir(path);
  }
  Status rmdir(const PathAt& path) override {
    STOKER_TRY(hook_("rmdir", &path));
    return target_.rmdir(path);
  }
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    STOKER_TRY(hook_("list_names", &path));
    return target_.list_names(path);
  }
  Status fsync_dir(const PathAt& path) override {
    STOKER_TRY(hook_("fsync_dir", &path));
    return target_.fsync_dir(path);
  }
  Status try_lock(int fd, LockMode mode) override {
    STOKER_TRY(hook_("try_lock", nullptr));
    return target_.try_lock(fd, mode);
  }
  void reached(std::string_view crash_point) override { target_.reached(crash_point); }

 private:
  FileOps& target_;
  const Hook hook_;
};

}  // namespace stoker::testing
