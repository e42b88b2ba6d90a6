#pragma once

#include <algorithm>
#include <atomic>
#include <string>
#include <vector>

#include "io/files/file_ops.h"

namespace stoker::testing {

/// Forwards to another FileOps and fails the `fail_at`-th operation, counted from zero, once.
/// Writes are always short, so that every caller has to continue them. Also a base for other
/// troublemakers.
class FaultyFileOps : public FileOps {
 public:
  static constexpr int kNever = -1;
  /// Whether unlink and rmdir are counted and failed as well. Spared, a sweep can demand that
  /// nothing is left behind.
  enum class Removals { spared, counted };

  FaultyFileOps(FileOps& target, int fail_at, int os_error, Removals removals = Removals::spared)
      : target_(target), fail_at_(fail_at), os_error_(os_error), removals_(removals) {}

  bool fired() const { return fail_at_ != kNever && calls_ > fail_at_; }
  /// The operation that was failed: "fsync".
  const std::string& failed_op() const { return failed_op_; }
  int call_count() const { return calls_; }

  Result<UniqueFd> open(const PathAt& path, int flags) override {
    STOKER_TRY(next("open"));
    return target_.open(path, flags);
  }
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override {
    STOKER_TRY(next("pwrite"));
    return target_.pwrite(fd, data.first(std::max<std::size_t>(data.size() / 2, 1)), offset_bytes);
  }
  Status fallocate(int fd, std::uint64_t size_bytes) override {
    STOKER_TRY(next("fallocate"));
    return target_.fallocate(fd, size_bytes);
  }
  Status ftruncate(int fd, std::uint64_t size_bytes) override {
    STOKER_TRY(next("ftruncate"));
    return target_.ftruncate(fd, size_bytes);
  }
  Status fchmod(int fd, unsigned mode) override {
    STOKER_TRY(next("fchmod"));
    return target_.fchmod(fd, mode);
  }
  Status fdatasync(int fd) override {
    STOKER_TRY(next("fdatasync"));
    return target_.fdatasync(fd);
  }
  Status fsync(int fd) override {
    STOKER_TRY(next("fsync"));
    return target_.fsync(fd);
  }
  Status close(UniqueFd fd) override {
    STOKER_TRY(next("close"));
    return target_.close(std::move(fd));
  }
  Status rename(const PathAt& from, const PathAt& to) override {
    STOKER_TRY(next("rename"));
    return target_.rename(from, to);
  }
  Status rename_noreplace(const PathAt& from, const PathAt& to) override {
    STOKER_TRY(next("rename_noreplace"));
    return target_.rename_noreplace(from, to);
  }
  Status link(const PathAt& from, const PathAt& to) override {
    STOKER_TRY(next("link"));
    return target_.link(from, to);
  }
  Status symlink(const std::string& target, const PathAt& path) override {
    STOKER_TRY(next("symlink"));
    return target_.symlink(target, path);
  }
  Result<std::string> read_link(const PathAt& path) override {
    STOKER_TRY(next("read_link"));
    return target_.read_link(path);
  }
  Result<FileInfo> info_of(const PathAt& path) override {
    STOKER_TRY(next("info_of"));
    return target_.info_of(path);
  }
  Status unlink(const PathAt& path) override {
    if (removals_ == Removals::counted) STOKER_TRY(next("unlink"));
    return target_.unlink(path);
  }
  Status mkdir(const PathAt& path) override {
    STOKER_TRY(next("mkdir"));
    return target_.mkdir(path);
  }
  Status rmdir(const PathAt& path) override {
    if (removals_ == Removals::counted) STOKER_TRY(next("rmdir"));
    return target_.rmdir(path);
  }
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override {
    STOKER_TRY(next("list_names"));
    return target_.list_names(path);
  }
  Status fsync_dir(const PathAt& path) override {
    STOKER_TRY(next("fsync_dir"));
    return target_.fsync_dir(path);
  }
  Status try_lock(int fd, LockMode mode) override {
    STOKER_TRY(next("try_lock"));
    return target_.try_lock(fd, mode);
  }
  void reached(std::string_view crash_point) override { target_.reached(crash_point); }

 private:
  Status next(const char* op) {
    if (calls_++ != fail_at_) return {};
    failed_op_ = op;
    return Status::from_errno(os_error_, op, "(injected)");
  }

  FileOps& target_;
  const int fail_at_;
  const int os_error_;
  const Removals removals_;
  std::atomic<int> calls_{0};  // a writer of checkpoints has a thread of its own
  std::string failed_op_;
};

}  // namespace stoker::testing
