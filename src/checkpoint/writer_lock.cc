#include "checkpoint/writer_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "checkpoint/names.h"
#include "checkpoint/text_file.h"
#include "checkpoint/tree_removal.h"

namespace stoker {
namespace {

using std::chrono::milliseconds;

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

/// A clock that is off by more than this makes two writers look dead to each other; the fence holds
/// even then.
constexpr double kTtlsToBeStale = 3;

}  // namespace

WriterLock::WriterLock(FileOps& ops, std::string directory, const LockOptions& options, UniqueFd fd)
    : ops_(ops), directory_(std::move(directory)), options_(options), fd_(std::move(fd)) {
  record_ = {.token = options.token.empty() ? make_token() : options.token,
             .host = options.host.empty() ? host_name() : options.host,
             .pid = ::getpid(),
             .time_s = wall_time_s()};
  owner_ = directory_ + "/" + owner_name(record_.token);
}

Result<std::unique_ptr<WriterLock>> WriterLock::acquire(FileOps& ops, const std::string& directory,
                                                        const LockOptions& options) {
  const std::string path = directory + "/" + std::string(kLockName);
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDWR | O_CREAT));
  struct stat info{};
  if (::fstat(fd.get(), &info) == 0 && !S_ISREG(info.st_mode))
    return Status(Code::invalid_argument, path + ": not a regular file, and so no lock: remove it");
  std::unique_ptr<WriterLock> lock(new WriterLock(ops, directory, options, std::move(fd)));
  const Deadline deadline = deadline_after(options.timeout, lock->now());
  STOKER_TRY(lock->await_flock(deadline).with_context("lock " + directory));
  STOKER_TRY(lock->await_other_host(deadline).with_context("lock " + directory));
  STOKER_TRY(lock->settle().with_context("lock " + directory));
  return lock;
}

void WriterLock::pause(nanoseconds time) const {
  if (options_.pause) return options_.pause(time);
  std::this_thread::sleep_for(time);
}

std::optional<LockRecord> WriterLock::read_record() const {
  std::array<char, 4096> text{};
  const ssize_t n = ::pread(fd_.get(), text.data(), text.size(), 0);
  if (n <= 0) return std::nullopt;
  return parse_lock_record(std::string_view(text.data(), static_cast<std::size_t>(n)));
}

Status WriterLock::await_flock(Deadline deadline) {
  for (nanoseconds wait = milliseconds(1);;
       wait = std::min<nanoseconds>(wait * 2, milliseconds(250))) {
    Status locked = ops_.try_lock(fd_.get(), LockMode::exclusive);
    // Where a filesystem has no flock, the record is all there is.
    if (locked.ok() || locked.code() == Code::unsupported) return {};
    if (locked.code() != Code::unavailable) return locked;
    if (now() >= deadline) {
      const std::optional<LockRecord> holder = read_record();
      return Status(Code::unavailable,
                    "another writer holds it: " + (holder ? holder->who() : "not known who"));
    }
    pause(std::min(wait, time_left(deadline, now())));
  }
}

// A record of this host says nothing once we have the flock: its writer is dead. One of another
// host is watched by our own clock for as long as its writer may be silent.
Status WriterLock::await_other_host(Deadline deadline) {
  std::optional<LockRecord> seen = read_record();
  if (!seen || seen->host == record_.host) return {};
  const double ttl_s = std::chrono::duration<double>(options_.ttl).count();
  if (wall_time_s() - seen->time_s > kTtlsToBeStale * ttl_s) return {};
  Deadline dead_at = deadline_after(options_.ttl, now());
  while (now() < dead_at) {
    if (now() >= deadline)
      return Status(Code::unavailable,
                    "another writer holds it, or held it a moment ago: " + seen->who() +
                        "; it is taken for dead after " + std::to_string(ttl_s) + " s of silence");
    pause(std::min({options_.ttl / 8, time_left(deadline, now()), time_left(dead_at, now())}));
    std::optional<LockRecord> again = read_record();
    if (!again) return {};  // it has ended
    if (*again != *seen) {
      seen = std::move(again);
      dead_at = deadline_after(options_.ttl, now());
    }
  }
  return {};
}

Status WriterLock::settle() {
  STOKER_TRY(write_text(ops_, fd_.get(), format_lock_record(record_)));
  STOKER_TRY(sweep(ops_, directory_, ""));
  STOKER_TRY(ops_.mkdir(owner_));
  is_settled_ = true;
  if (options_.ttl <= nanoseconds(0)) return {};
  try {
    heart_ = std::make_unique<std::jthread>([this](std::stop_token stop) { keep_beating(stop); });
  } catch (const std::system_error& error) {
    return Status(Code::unavailable, std::string("no thread for the lock: ") + error.what());
  }
  return {};
}

void WriterLock::beat() {
  const std::optional<LockRecord> on_disk = read_record();
  if (on_disk && on_disk->token != record_.token) {
    is_lost_.store(true, std::memory_order_relaxed);
    return;
  }
  record_.time_s = wall_time_s();
  ++record_.beat;
  // A failure is not reported: the worst is a takeover, and the fence is there for that.
  static_cast<void>(write_text(ops_, fd_.get(), format_lock_record(record_)));
}

void WriterLock::keep_beating(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    MutexLock lock(mutex_);
    stopped_.notify_all();
  });
  while (!stop.stop_requested() && !is_lost()) {
    const Deadline next = deadline_after(options_.ttl / 4);
    {
      MutexLock lock(mutex_);
      while (!stop.stop_requested() && Clock::now() < next) stopped_.wait_until(mutex_, next);
    }
    if (!stop.stop_requested()) beat();
  }
}

WriterLock::~WriterLock() {
  if (!guard_.is_here()) {
    static_cast<void>(heart_.release());
    return;
  }
  heart_.reset();
  if (!is_settled_) return;
  // Both are left-overs at worst: the next holder sweeps the one and overrules the other.
  if (!leaves_staging_) static_cast<void>(remove_tree(ops_, owner_));
  const std::optional<LockRecord> on_disk = read_record();
  if (on_disk && on_disk->token == record_.token) static_cast<void>(ops_.ftruncate(fd_.get(), 0));
}

// 1. Rename each staging directory: from here on its owner cannot publish.  2. fsync the directory.
// 3. Remove what was renamed, now or by somebody before us.
Status sweep(FileOps& ops, const std::string& directory, const std::string& keep) {
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(directory));
  std::vector<std::string> trash;
  bool has_fenced = false;
  for (const std::string& name : names) {
    if (is_trash_name(name)) trash.push_back(name);
    if (!is_owner_name(name) || name == keep) continue;
    trash.push_back(trash_name(name, make_token()));
    const Status renamed = ops.rename(directory + "/" + name, directory + "/" + trash.back());
    if (renamed.code() == Code::not_found) continue;  // its owner has just removed it
    STOKER_TRY(renamed);
    has_fenced = true;
  }
  if (has_fenced) {
    STOKER_TRY(ops.fsync_dir(directory));
    ops.reached("takeover.fenced");
  }
  for (const std::string& name : trash) {
    // What resists is tried again by the next holder; it is in nobody's way.
    static_cast<void>(remove_tree(ops, directory + "/" + name));
  }
  if (!trash.empty()) ops.reached("takeover.swept");
  return {};
}

}  // namespace stoker
