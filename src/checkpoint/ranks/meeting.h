#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "base/fork_closed_fd.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/wait_notice.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/ranks/launcher.h"
#include "stoker/status.h"

namespace stoker {

struct RankClaim;

struct MeetingOptions {
  CheckpointDirectory place;  ///< Visible to every rank; they meet in `.meeting-<word>` in it.
  /// Identifies the meeting: the same for all ranks of a job that meet for one purpose and, if
  /// possible, for no others. Letters, digits, '-', '_' and '.'.
  std::string word = {};
  /// The process that has started this one (launcher.h), if known. Ranks on the same machine that
  /// another process has started belong to another job.
  ProcessIdentity launcher = {};
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// Returns the processes that may be ranks. Rank 0 waits some seconds for them, at most half of
  /// its time: if two jobs that cannot be distinguished start at once, more ranks appear than one
  /// job has.
  std::function<std::vector<std::int64_t>()> siblings = {};
  /// Nonces of this rank's attempts that have failed; meet() appends its own. If rank 0 has counted
  /// one of them as a member just when the attempt ended, the next attempt joins that session.
  /// Null: every attempt is the first.
  std::vector<std::string>* attempts = nullptr;
  nanoseconds ttl = std::chrono::seconds(60);  ///< Heartbeats are sent within it.
  /// Sleeps; an error ends the wait. Empty: sleep_for().
  std::function<Status(nanoseconds)> pause = {};
  WaitSink on_wait = {};  ///< Receives which ranks are missing.
  /// Appended to messages about missing ranks: what may be wrong. Continues the sentence.
  std::string advice = {};

  // For tests:
  std::optional<ProcessIdentity> process = {};   ///< Default: this process.
  nanoseconds settle = std::chrono::seconds(5);  ///< How long to wait for siblings.
};

/// Brings together ranks that share only a filesystem, and gives them a new, unique session.
/// Without it a rank might read messages that rank 0 sent before the run was killed and restarted,
/// or messages of another job.
///
/// The meeting lasts as long as the object: heartbeats keep the directory from being swept, and a
/// second process that claims the same rank finds this one alive.
///
/// Thread safety: const methods may be called from any thread. In a forked child the destructor
/// does nothing.
class Meeting {
 public:
  /// Returns when every rank has arrived. `unavailable` names the missing ranks. `already_exists`
  /// names two processes of different jobs, such as two that claim one rank; all processes present
  /// get it.
  static Result<std::unique_ptr<Meeting>> meet(const MeetingOptions& options, Deadline deadline);

  /// Uses a session that the ranks have agreed on by other means; does not wait.
  static Result<std::unique_ptr<Meeting>> enter(const MeetingOptions& options,
                                                const std::string& session);

  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  /// Removes this rank's files; on rank 0 also the messages of the session.
  ~Meeting();

  const std::string& session() const noexcept { return session_; }
  /// Names the two jobs, if a rank has left because it detected them after this one had its
  /// session; otherwise empty. Known once a wait for that rank has failed.
  std::string conflict() const;
  /// Returns a coordinator for the ranks that have met. This object must outlive it.
  Result<std::unique_ptr<Coordinator>> make_coordinator() const;

 private:
  class Talk;

  explicit Meeting(const MeetingOptions& options);
  Status make_claim();
  Status try_claim();
  Status claim_again_as(const std::string& nonce);
  Status start_heartbeat();
  void keep_beating(std::stop_token stop);
  RankClaim own_claim() const;
  /// `unavailable` if the process of this rank is known to have ended without removing its claim,
  /// or has left because of a conflict.
  Status find_loss(std::uint32_t rank) const;

  const MeetingOptions options_;
  const PathAt directory_;
  std::string nonce_;
  const ProcessIdentity process_;
  std::string session_;
  std::vector<std::string> members_;  // nonces, by rank; empty after enter()
  bool has_met_ = false;
  ForkGuard guard_;
  std::unique_ptr<ForkClosedFd> claim_;  // locked
  std::uint64_t beat_ = 0;               // changed only by heartbeat_ once it runs
  mutable Mutex mutex_;
  mutable std::string conflict_ STOKER_GUARDED_BY(mutex_);
  Condition stopped_;
  std::unique_ptr<std::jthread> heartbeat_;  // leaked in a forked child, which has no such thread
};

}  // namespace stoker
