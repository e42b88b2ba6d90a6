#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Performs the calls of another FileOps on a thread of its own, so that one which the kernel does
/// not end, as on a dead server or disk, can be left alone: it is answered with ETIMEDOUT at the
/// deadline. Whether such a call was performed, or still will be, nobody can tell.
///
/// After that every call is answered so at once, until begin() finds that the thread has come back,
/// or starts another. The destructor waits for nobody: threads that are still stuck then are kept
/// until the process ends.
///
/// Thread safety: one thread at a time.
class TimedFileOps final : public FileOps {
 public:
  explicit TimedFileOps(FileOps& target);
  ~TimedFileOps() override;
  TimedFileOps(const TimedFileOps&) = delete;
  TimedFileOps& operator=(const TimedFileOps&) = delete;

  /// What follows ends by `deadline`. `unavailable` if so many calls are stuck that one more would
  /// only be lost as well, or there is no thread to be had.
  Status begin(Deadline deadline);

  Result<UniqueFd> open(const PathAt& path, int flags) override;
  Result<std::size_t> pwrite(int fd, std::span<const std::byte> data,
                             std::uint64_t offset_bytes) override;
  Status fallocate(int fd, std::uint64_t size_bytes) override;
  Status ftruncate(int fd, std::uint64_t size_bytes) override;
  Status fchmod(int fd, unsigned mode) override;
  Status fdatasync(int fd) override;
  Status fsync(int fd) override;
  Status close(UniqueFd fd) override;
  Status rename(const PathAt& from, const PathAt& to) override;
  Status rename_noreplace(const PathAt& from, const PathAt& to) override;
  Status link(const PathAt& from, const PathAt& to) override;
  Status symlink(const std::string& target, const PathAt& path) override;
  Result<std::string> read_link(const PathAt& path) override;
  Result<FileInfo> info_of(const PathAt& path) override;
  Status unlink(const PathAt& path) override;
  Status mkdir(const PathAt& path) override;
  Status rmdir(const PathAt& path) override;
  Result<std::vector<DirectoryName>> list_names(const PathAt& path) override;
  Status fsync_dir(const PathAt& path) override;
  Status try_lock(int fd, LockMode mode) override;
  void reached(std::string_view crash_point) override;

 private:
  class Helper;

  template <typename Answer>
  Answer run(const char* op, const std::string& path, std::function<Answer()> call);

  FileOps& target_;
  Deadline deadline_ = Deadline::max();
  std::unique_ptr<Helper> helper_;
  std::vector<std::unique_ptr<Helper>> stuck_;
};

}  // namespace stoker
