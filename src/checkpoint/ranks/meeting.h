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
  CheckpointDirectory place;  ///< Every rank sees it; they meet in `.meeting-<word>` in it.
  /// Who may meet: the same for all ranks of a job that meet for one purpose, and as far as can be
  /// told for no others. Letters, digits, '-', '_' and '.'.
  std::string word = {};
  /// The process that has started this one (launcher.h), if there is telling. Ranks beside this one
  /// that another process has started are of another job.
  ProcessIdentity launcher = {};
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// Processes that may be ranks and are waited for, for some seconds: if two jobs that cannot be
  /// told apart start at once, more ranks come than one job has.
  std::function<std::vector<std::int64_t>()> siblings = {};
  nanoseconds ttl = std::chrono::seconds(60);  ///< Signs of life are given within it.
  /// Sleeps; an error ends the wait. Nothing: it just sleeps.
  std::function<Status(nanoseconds)> pause = {};
  WaitSink on_wait = {};  ///< Hears who is missing, after some seconds of waiting.
  /// What may be wrong if ranks do not come, for messages; continues the sentence.
  std::string advice = {};

  // For tests:
  std::optional<ProcessIdentity> process = {};   ///< This one if empty.
  nanoseconds settle = std::chrono::seconds(5);  ///< How long siblings are waited for.
};

/// Brings together the ranks that share a filesystem, and nothing else, and gives them a session
/// that nobody has used before: without it a rank might hear what rank 0 said before the run was
/// killed and started again, or what another job says.
///
/// It lasts as long as the object: the directory is kept from being swept by signs of life, and a
/// second process that claims the same rank finds this one alive.
///
/// Thread safety: const methods may be called from any thread. In a forked child the destructor
/// does nothing.
class Meeting {
 public:
  /// Returns when every rank is there. `unavailable` names those that are missing;
  /// `already_exists` two live processes that claim one rank, on both: they are two jobs.
  static Result<std::unique_ptr<Meeting>> meet(const MeetingOptions& options, Deadline deadline);

  /// With a session that the ranks have agreed on by other means; waits for nobody.
  static Result<std::unique_ptr<Meeting>> enter(const MeetingOptions& options,
                                                const std::string& session);

  Meeting(const Meeting&) = delete;
  Meeting& operator=(const Meeting&) = delete;
  /// Removes this rank's files; on rank 0 all that are of this session.
  ~Meeting();

  const std::string& session() const noexcept { return session_; }
  /// For the ranks that have met. This object must outlive it.
  Result<std::unique_ptr<Coordinator>> make_coordinator() const;

 private:
  class Talk;

  explicit Meeting(const MeetingOptions& options);
  Status make_claim();
  Status try_claim();
  Status start_heart();
  void keep_beating(std::stop_token stop);
  RankClaim own_claim() const;
  /// `unavailable` if the member with this rank is known to have ended without leaving.
  Status find_loss(std::uint32_t rank) const;

  const MeetingOptions options_;
  const PathAt directory_;
  const std::string nonce_;
  const ProcessIdentity process_;
  std::string session_;
  std::vector<std::string> members_;  // nonces, by rank; none if they have met by other means
  bool has_met_ = false;
  ForkGuard guard_;
  std::unique_ptr<ForkClosedFd> claim_;  // locked
  std::uint64_t beat_ = 0;               // the heart's, once it beats
  Mutex mutex_;
  Condition stopped_;
  std::unique_ptr<std::jthread> heart_;  // let go of in a child, where there is no such thread
};

}  // namespace stoker
