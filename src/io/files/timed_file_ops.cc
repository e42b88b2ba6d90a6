#include "io/files/timed_file_ops.h"

#include <cerrno>
#include <exception>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "base/mutex.h"

namespace stoker {
namespace {

constexpr std::size_t kStuckMax = 2;

/// `was_late`: something else has taken the time.
Status timed_out(const char* op, const std::string& path, bool was_late) {
  const std::string call = std::string(op) + (path.empty() ? "" : " " + path);
  return Status(
      Code::unavailable,
      was_late ? "the deadline passed before " + call : call + ": did not end before the deadline",
      ETIMEDOUT);
}

}  // namespace

/// A thread and the one call that it performs.
class TimedFileOps::Helper {
 public:
  Helper() : thread_([this](const std::stop_token& stop) { work(stop); }) {}

  /// Returns false if `call` has not ended by `deadline`. `call` must own everything it uses.
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
  /// Keeps `fd` open until this object is destroyed, when its call is no longer stuck: closing may
  /// block as well.
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
        call = &call_;  // not changed by others until the call has ended
      }
      (*call)();
      {
        const MutexLock lock(mutex_);
        call_ = nullptr;
      }
      changed_.notify_all();
    }
  }

  std::vector<UniqueFd> parked_;  // used by the caller's thread only
  Mutex mutex_;
  Condition changed_;
  std::function<void()> call_;  // guarded by mutex_; while it runs, used by the thread only
  std::jthread thread_;         // last: it uses the members above
};

TimedFileOps::TimedFileOps(FileOps& target) : target_(target) {}

TimedFileOps::~TimedFileOps() {
  if (helper_ != nullptr) stuck_.push_back(std::move(helper_));
  for (std::unique_ptr<Helper>& helper : stuck_) {
    if (helper->is_idle()) continue;
    // Joining would wait for the kernel. Kept in a list, so that leak checkers do not report it.
    static Mutex mutex;
    // NOLINTNEXTLINE(bugprone-unhandled-exception-at-new): no memory left ends the program
    static auto* const kept = new std::vector<std::unique_ptr<Helper>>();
    const MutexLock lock(mutex);
    kept->push_back(std::move(helper));
  }
}

Status TimedFileOps::begin(Deadline deadline) {
  deadline_ = deadline;
  limited_ = std::this_thread::get_id();
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

// The thread shares ownership of the answer, because it may return after the caller has given up.
template <typename Answer>
Answer TimedFileOps::run(const char* op, const std::string& path, std::function<Answer()> call) {
  if (!is_limited()) return call();
  // Without a helper begin() has failed.
  const bool was_late = Clock::now() >= deadline_;
  if (helper_ == nullptr || !helper_->is_idle()) return timed_out(op, path, was_late);
  struct Ended {
    std::optional<Answer> answer;
    std::exception_ptr thrown;
  };
  auto ended = std::make_shared<Ended>();
  const auto work = [ended, call = std::move(call)] {
    try {
      ended->answer.emplace(call());
    } catch (...) {  // there is no memory: the caller's thread can deal with that
      ended->thrown = std::current_exception();
    }
  };
  if (!helper_->run(work, deadline_)) return timed_out(op, path, was_late);
  if (ended->thrown) std::rethrow_exception(ended->thrown);
  return std::move(*ended->answer);
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
  if (!is_limited()) return target_.close(std::move(fd));
  Helper* stuck = helper_ != nullptr && !helper_->is_idle() ? helper_.get() : nullptr;
  if (helper_ == nullptr && !stuck_.empty()) stuck = stuck_.back().get();  // begin() has failed
  if (stuck != nullptr) {
    stuck->park(std::move(fd));
    return timed_out("close", "", Clock::now() >= deadline_);
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
