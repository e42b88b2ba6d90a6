#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "base/clock.h"
#include "base/fork_closed_fd.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/directory/lock_epochs.h"
#include "checkpoint/directory/meeting_sweep.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/directory/wait_notice.h"
#include "checkpoint/store/checkpoint_writer.h"
#include "checkpoint/store/lock_options.h"

namespace stoker {

/// The right to write to a checkpoint directory, with the owner's directory as its fence.
///
/// On one host a flock on `.lock` decides; the kernel releases it when the holder dies. Between
/// hosts, where a flock may be invisible, epochs decide (lock_epochs.h): the holder increments a
/// heartbeat in its record, and an observer presumes it dead when the record has not changed for
/// the ttl, by the observer's own clock. A writer that takes over removes the directories of
/// previous owners, so that one that was only slow can neither publish nor remove anything.
///
/// Thread safety: const methods may be called from any thread. In a forked child the lock is not
/// held, and the destructor does nothing.
class WriterLock final : public StoreLock {
 public:
  /// Takes the lock, then fences dead writers and sweeps what they have left. The message of
  /// `unavailable` names the holder. Crash points: takeover.claimed, and those of OwnerDirectory.
  static Result<std::unique_ptr<WriterLock>> acquire(const CheckpointDirectory& directory,
                                                     const LockOptions& options);
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  /// Removes the owner's directory and releases the lock.
  ~WriterLock() override;

  const OwnerDirectory& owner() const noexcept { return owner_; }
  const std::string& token() const noexcept override { return record_.token; }
  /// Lists the directory.
  std::optional<std::string> find_successor() const override;

 private:
  WriterLock(const CheckpointDirectory& directory, const LockOptions& options, UniqueFd flock_fd,
             std::uint64_t device);

  Status await_flock(Deadline deadline);
  Status await_old_version(Deadline deadline);
  Result<LockEpoch> await_epoch(Deadline deadline);
  Status await_silence(LockEpoch& epoch, Deadline deadline);
  Result<bool> claim(std::uint64_t number);
  Status settle();
  Status explain(const Status& failure) const;
  Status held_by(const std::string& who) const;
  std::string waited() const;
  std::string holder() const;
  std::optional<OldLockRecord> read_old_record() const;
  void beat();
  void keep_beating(std::stop_token stop);
  Deadline now() const { return options_.now ? options_.now() : Clock::now(); }
  void pause(nanoseconds time) const;

  const CheckpointDirectory directory_;
  const LockOptions options_;
  const LockEpochs epochs_;
  ForkGuard guard_;
  ForkClosedFd flock_;
  bool has_flock_ = false;  // false where files cannot be locked
  std::unique_ptr<ForkClosedFd> epoch_fd_;
  std::uint64_t epoch_ = 0;
  LockRecord record_;     // changed only by heart_ once it runs
  const Deadline begun_;  // when acquire() was called
  OwnerDirectory owner_;
  MeetingSweep meetings_;  // used by heart_ only
  bool is_settled_ = false;
  Mutex mutex_;
  Condition stopped_;
  std::unique_ptr<std::jthread> heart_;  // leaked in a forked child, which has no such thread
};

}  // namespace stoker
