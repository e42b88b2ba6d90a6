#include "io/files/timed_file_ops.h"

#include <cerrno>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace stoker {
namespace {

constexpr std::size_t kStuckMax = 2;

Status timed_out(const char* op, const std::string& path) {
  return Status(
      Code::unavailable,
      std::string(op) + (path.empty() ? "" : " " + path) + ": did not end before the deadline",
      ETIMEDOUT);
}

}  // namespace

/// The thread, and the one call that it performs.
class TimedFileOps::Helper {
 public:
  Helper() : thread_([this](const std::stop_token& stop) { work(stop); }) {}

  /// False if `call` has not ended by `deadline`. It must own all it needs.
  bool run(std::function<void()> call, Deadline deadline) {
    MutexLock lock(mutex_);
    call_ = std::move(call);
    changed_.notify_all();
    while (call_ && changed_.wait_until(mutex_, deadline)) {
    }
    return !call_;
  }
  bool is_idle() {
    const MutexLock lock(mutex_);
    return !call_;
  }
  /// Closed when this is destroyed, which is when no call is stuck any more: closing may wait, too.
  void park(UniqueFd fd) { parked_.push_back(std::move(fd)); }

 private:
  void work(const std::stop_token& stop) {
    const std::stop_callback wake(stop, [this] {
      const MutexLock lock(mutex_);
      changed_.notify_all();
    });
    for (;;) {
      std::function<void()>* call = nullptr;
      {
        MutexLock lock(mutex_);
        while (!call_ && !stop.stop_requested()) changed_.wait(mutex_);
        if (!call_) return;
        call = &call_;  // nobody else changes it until it is over
      }
      (*call)();
      {
        const MutexLock lock(mutex_);
        call_ = nullptr;
      }
      changed_.notify_all();
    }
  }

  std::vector<UniqueFd> parked_;  // the caller's
  Mutex mutex_;
  Condition changed_;
  std::function<void()> call_;  // guarded by mutex_, but while it runs it is the thread's
  std::jthread thread_;         // last: it uses the members above
};

TimedFileOps::TimedFileOps(FileOps& target) : target_(target) {}

TimedFileOps::~TimedFileOps() {
  if (helper_ != nullptr) stuck_.push_back(std::move(helper_));
  for (std::unique_ptr<Helper>& helper : stuck_) {
    if (helper->is_idle()) continue;
    // Joining waits for the kernel. A list, and no leak, so that a leak checker can tell.
    static Mutex mutex;
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): no memory left ends the program
    static auto* const kept = new std::vector<std::unique_ptr<Helper>>();
    const MutexLock lock(mutex);
    kept->push_back(std::move(helper));
  }
}

Status TimedFileOps::begin(Deadline deadline) {
  deadline_ = deadline;
  if (helper_ != nullptr && !helper_->is_idle()) stuck_.push_back(std::move(helper_));
  std::erase_if(stuck_, [](const std::unique_ptr<Helper>& helper) { return helper->is_idle(); });
  if (stuck_.size() >= kStuckMax)
    return Status(Code::unavailable,
                  "the filesystem does not answer: " + std::to_string(stuck_.size()) +
                      " earlier calls have not ended");
  if (helper_ != nullptr) return {};
  try {
    helper_ = std::make_unique<Helper>();
  } catch (const std::system_error& error) {
    return Status(Code::unavailable, std::string("no thread for system calls: ") + error.what());
  }
  return {};
}

// The answer is shared with the thread, which may come back when nobody waits for it any more.
template <typename Answer>
Answer TimedFileOps::run(const char* op, const std::string& path, std::function<Answer()> call) {
  if (helper_ == nullptr) return call();  // before the first begin()
  if (!helper_->is_idle()) return timed_out(op, path);
  auto answer = std::make_shared<std::optional<Answer>>();
  const bool is_over =
      helper_->run([answer, call = std::move(call)] { answer->emplace(call()); }, deadline_);
  if (!is_over) return timed_out(op, path);
  return std::move(**answer);
}

Result<UniqueFd> TimedFileOps::open(const PathAt& path, int flags) {
  return run<Result<UniqueFd>>(
      "open", path.text(), [&target = target_, path, flags] { return target.open(path, flags); });
}

Result<std::size_t> TimedFileOps::pwrite(int fd, std::span<const std::byte> data,
                                         std::uint64_t offset_bytes) {
  return run<Result<std::size_t>>("pwrite", "",
                                  [&target = target_, fd, offset_bytes,
                                   copy = std::vector<std::byte>(data.begin(), data.end())] {
                                    return target.pwrite(fd, copy, offset_bytes);
                                  });
}

Status TimedFileOps::fallocate(int fd, std::uint64_t size_bytes) {
  return run<Status>("fallocate", "", [&target = target_, fd, size_bytes] {
    return target.fallocate(fd, size_bytes);
  });
}
Status TimedFileOps::ftruncate(int fd, std::uint64_t size_bytes) {
  return run<Status>("ftruncate", "", [&target = target_, fd, size_bytes] {
    return target.ftruncate(fd, size_bytes);
  });
}
Status TimedFileOps::fchmod(int fd, unsigned mode) {
  return run<Status>("fchmod", "",
                     [&target = target_, fd, mode] { return target.fchmod(fd, mode); });
}
Status TimedFileOps::fdatasync(int fd) {
  return run<Status>("fdatasync", "", [&target = target_, fd] { return target.fdatasync(fd); });
}
Status TimedFileOps::fsync(int fd) {
  return run<Status>("fsync", "", [&target = target_, fd] { return target.fsync(fd); });
}
Status TimedFileOps::close(UniqueFd fd) {
  if (helper_ != nullptr && !helper_->is_idle()) {
    helper_->park(std::move(fd));
    return timed_out("close", "");
  }
  const auto owned = std::make_shared<UniqueFd>(std::move(fd));
  return run<Status>("close", "",
                     [&target = target_, owned] { return target.close(std::move(*owned)); });
}
Status TimedFileOps::rename(const PathAt& from, const PathAt& to) {
  return run<Status>("rename", to.text(),
                     [&target = target_, from, to] { return target.rename(from, to); });
}
Status TimedFileOps::rename_noreplace(const PathAt& from, const PathAt& to) {
  return run<Status>("rename", to.text(),
                     [&target = target_, from, to] { return target.rename_noreplace(from, to); });
}
Status TimedFileOps::link(const PathAt& from, const PathAt& to) {
  return run<Status>("link", to.text(),
                     [&target = target_, from, to] { return target.link(from, to); });
}
Status TimedFileOps::symlink(const std::string& target, const PathAt& path) {
  return run<Status>("symlink", path.text(),
                     [&ops = target_, target, path] { return ops.symlink(target, path); });
}
Result<std::string> TimedFileOps::read_link(const PathAt& path) {
  return run<Result<std::string>>("readlink", path.text(),
                                  [&target = target_, path] { return target.read_link(path); });
}
Result<FileInfo> TimedFileOps::info_of(const PathAt& path) {
  return run<Result<FileInfo>>("lstat", path.text(),
                               [&target = target_, path] { return target.info_of(path); });
}
Status TimedFileOps::unlink(const PathAt& path) {
  return run<Status>("unlink", path.text(),
                     [&target = target_, path] { return target.unlink(path); });
}
Status TimedFileOps::mkdir(const PathAt& path) {
  return run<Status>("mkdir", path.text(),
                     [&target = target_, path] { return target.mkdir(path); });
}
Status TimedFileOps::rmdir(const PathAt& path) {
  return run<Status>("rmdir", path.text(),
                     [&target = target_, path] { return target.rmdir(path); });
}
Result<std::vector<DirectoryName>> TimedFileOps::list_names(const PathAt& path) {
  return run<Result<std::vector<DirectoryName>>>(
      "list", path.text(), [&target = target_, path] { return target.list_names(path); });
}
Status TimedFileOps::fsync_dir(const PathAt& path) {
  return run<Status>("fsync", path.text(),
                     [&target = target_, path] { return target.fsync_dir(path); });
}
Status TimedFileOps::try_lock(int fd, LockMode mode) {
  return run<Status>("flock", "",
                     [&target = target_, fd, mode] { return target.try_lock(fd, mode); });
}
void TimedFileOps::reached(std::string_view crash_point) {
  target_.reached(crash_point);
}

}  // namespace stoker
