#include "killing_file_ops.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <utility>
#include <vector>

namespace stoker::python {
namespace {

class KillingFileOps final : public FileOps {
 public:
  KillingFileOps(std::string crash_point, std::uint32_t count)
      : target_(posix_file_ops()), crash_point_(std::move(crash_point)), left_(count) {}

  Result<UniqueFd> open(const std::string& path, int flags) override {
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
  Status rename(const std::string& from, const std::string& to) override {
    return target_.rename(from, to);
  }
  Status rename_noreplace(const std::string& from, const std::string& to) override {
    return target_.rename_noreplace(from, to);
  }
  Status link(const std::string& from, const std::string& to) override {
    return target_.link(from, to);
  }
  Status symlink(const std::string& target, const std::string& path) override {
    return target_.symlink(target, path);
  }
  Result<std::string> read_link(const std::string& path) override {
    return target_.read_link(path);
  }
  Result<FileKind> kind_of(const std::string& path) override { return target_.kind_of(path); }
  Status unlink(const std::string& path) override { return target_.unlink(path); }
  Status mkdir(const std::string& path) override { return target_.mkdir(path); }
  Status rmdir(const std::string& path) override { return target_.rmdir(path); }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return target_.list(path);
  }
  Status fsync_dir(const std::string& path) override { return target_.fsync_dir(path); }
  Status try_lock(int fd, LockMode mode) override { return target_.try_lock(fd, mode); }

  void reached(std::string_view crash_point) override {
    if (crash_point == crash_point_ && left_.fetch_sub(1, std::memory_order_relaxed) == 1)
      ::kill(::getpid(), SIGKILL);
  }

 private:
  FileOps& target_;
  const std::string crash_point_;
  std::atomic<std::uint32_t> left_;  // relaxed: a counter on its own
};

}  // namespace

std::unique_ptr<FileOps> make_killing_file_ops(std::string crash_point, std::uint32_t count) {
  return std::make_unique<KillingFileOps>(std::move(crash_point), count);
}

}  // namespace stoker::python
