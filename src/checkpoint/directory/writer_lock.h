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

/// The right to write a checkpoint directory, and the directory that is its fence.
///
/// On one host a flock on `.lock` decides, and a death frees it at once. Between hosts, where a
/// lock may not be seen, epochs do (lock_epochs.h): the holder counts its record up, and an
/// observer takes it for dead when it has not changed for the ttl, by the observer's own clock.
/// Whoever takes over removes the owner's directories of those before, so that a writer that was
/// only slow can neither publish nor remove anything.
///
/// Thread safety: const methods may be called from any thread. In a forked child the lock is not
/// held, and the destructor does nothing.
class WriterLock final : public StoreLock {
 public:
  /// Takes the lock, fences and sweeps what dead writers have left. `unavailable` names who holds
  /// it. Crash points: takeover.claimed, and those of OwnerDirectory.
  static Result<std::unique_ptr<WriterLock>> acquire(const CheckpointDirectory& directory,
                                                     const LockOptions& options);
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;
  /// Removes the owner's directory and lets others in.
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
  LockRecord record_;  // changed by the heart alone, once it beats
  OwnerDirectory owner_;
  MeetingSweep meetings_;  // the heart's
  bool is_settled_ = false;
  Mutex mutex_;
  Condition stopped_;
  std::unique_ptr<std::jthread> heart_;  // let go of in a child, where there is no such thread
};

}  // namespace stoker
