#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/fork_closed_fd.h"
#include "checkpoint/lock_record.h"
#include "io/file_ops.h"

namespace stoker {

struct LockOptions {
  nanoseconds timeout{0};  ///< How long to wait for another writer to end.
  /// A writer on another host that has given no sign of life for so long is taken for dead.
  nanoseconds ttl = std::chrono::seconds(60);
  std::string token = {};                       ///< Of the staging directory; one is made if empty.
  std::string host = {};                        ///< For tests; this host if empty.
  std::function<Deadline()> now = {};           ///< For tests; the steady clock.
  std::function<void(nanoseconds)> pause = {};  ///< For tests; sleeps.
};

/// The right to write a checkpoint directory, and its staging directory `owner-<token>`.
///
/// On one host flock(2) alone decides, and a death frees it at once. Between hosts, where a lock
/// may not be seen, the holder renews its record in `.lock`; one that no longer changes is taken
/// over. Whoever takes over first renames the staging directories of those before, so that a
/// writer that was only slow finds no source for its rename: it cannot publish.
///
/// Thread safety: const methods may be called from any thread. In a forked child the lock is not
/// held, and the destructor does nothing.
class WriterLock {
 public:
  /// Takes the lock and sweeps what dead writers have left: their staging directories and
  /// `.trash-*`. `unavailable` names who holds it. Crash points: takeover.fenced, .swept.
  static Result<std::unique_ptr<WriterLock>> acquire(FileOps& ops, const std::string& directory,
                                                     const LockOptions& options);
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  /// Removes the staging directory, unless it is to be left, and lets others in.
  ~WriterLock();

  /// Other ranks may still look into the staging directory: it is left to the next holder's sweep.
  void leave_staging() noexcept { leaves_staging_ = true; }

  const std::string& token() const noexcept { return record_.token; }
  /// The staging directory's path.
  const std::string& owner_directory() const noexcept { return owner_; }
  /// Whether another host has taken over. Asked for the sake of the message: the fence protects.
  bool is_lost() const noexcept { return is_lost_.load(std::memory_order_relaxed); }

 private:
  WriterLock(FileOps& ops, std::string directory, const LockOptions& options, UniqueFd fd);

  Status await_flock(Deadline deadline);
  Status await_other_host(Deadline deadline);
  Status settle();
  void beat();
  void keep_beating(std::stop_token stop);
  Deadline now() const { return options_.now ? options_.now() : Clock::now(); }
  void pause(nanoseconds time) const;
  std::optional<LockRecord> read_record() const;

  FileOps& ops_;
  const std::string directory_;
  const LockOptions options_;
  ForkGuard guard_;
  ForkClosedFd fd_;
  LockRecord record_;  // changed by the heart alone, once it beats
  std::string owner_;
  bool is_settled_ = false;
  bool leaves_staging_ = false;
  std::atomic<bool> is_lost_{false};  // relaxed: a flag on its own
  Mutex mutex_;
  Condition stopped_;
  std::unique_ptr<std::jthread> heart_;  // let go of in a child, where there is no such thread
};

/// Renames `owner-*` (but not `keep`) and removes them and `.trash-*`. Only the lock's holder may.
Status sweep(FileOps& ops, const std::string& directory, const std::string& keep);

}  // namespace stoker
