#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Performs the calls of another FileOps on a separate thread, so that a call which hangs in the
/// kernel, as on a dead server or disk, can be abandoned: it fails with ETIMEDOUT at the deadline.
/// Whether such a call was performed, or still will be, is unknown.
///
/// The deadline is for the calls of the thread that has called begin(), until it calls end(). Other
/// calls run on the thread that makes them, without a deadline.
///
/// After a timeout every call fails at once in the same way, until begin() finds that the thread
/// has returned, or starts another. The destructor does not wait: threads that are still stuck are
/// kept until the process ends.
///
/// Thread safety: begin() and end() from one thread at a time; other methods from any thread, if
/// the target allows that.
class TimedFileOps final : public FileOps {
 public:
  explicit TimedFileOps(FileOps& target);
  ~TimedFileOps() override;
  TimedFileOps(const TimedFileOps&) = delete;
  TimedFileOps& operator=(const TimedFileOps&) = delete;

  /// Sets the deadline of this thread's calls that follow. `unavailable` if two earlier calls are
  /// stuck already, or if no thread can be started; then every call fails at once until the next
  /// begin().
  Status begin(Deadline deadline);
  /// Calls have no deadline any more.
  void end() noexcept { limited_ = std::thread::id(); }

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

  bool is_limited() const noexcept { return limited_ == std::this_thread::get_id(); }
  template <typename Answer>
  Answer run(const char* op, const std::string& path, std::function<Answer()> call);

  FileOps& target_;
  Deadline deadline_ = Deadline::max();
  std::atomic<std::thread::id> limited_ = {};  // the thread whose calls have the deadline
  std::unique_ptr<Helper> helper_;
  std::vector<std::unique_ptr<Helper>> stuck_;
};

}  // namespace stoker
