#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fork_guard.h"
#include "base/mutex.h"
#include "checkpoint/directory/wait_notice.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/ranks/launcher.h"
#include "checkpoint/ranks/meeting_words.h"
#include "checkpoint/ranks/message_carrier.h"
#include "stoker/status.h"

namespace stoker {

/// The processes that are the ranks of one job, as sessions have seen them: a rank that has ended
/// between two sessions enters no other.
///
/// Thread safety: every method may be called from any thread.
class KnownRanks {
 public:
  std::optional<RankClaim> find(std::uint32_t rank) const;
  void learn(const RankClaim& claim);

 private:
  mutable Mutex mutex_;
  std::map<std::uint32_t, RankClaim> claims_ STOKER_GUARDED_BY(mutex_);
};

struct CarriedMeetingOptions {
  std::shared_ptr<MessageCarrier> carrier;
  /// The same on all ranks; each has at most one meeting at a time with that key and purpose.
  std::string key = {};
  std::string purpose = {};                      ///< What the ranks meet for: "save".
  std::vector<std::string> other_purposes = {};  ///< For which rank 0 may meet by mistake.
  std::string where = {};                        ///< The directory, for messages to people.
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// Tokens of sessions that this rank has entered; meet() appends its own. Such a session is over
  /// for this rank. Not null.
  std::vector<std::string>* entered = nullptr;
  /// What the sessions of this rank have in common. Null: nothing.
  std::shared_ptr<KnownRanks> known = {};
  std::function<Status(nanoseconds)> pause = {};  ///< Sleeps; an error ends the wait.
  WaitSink on_wait = {};                          ///< Receives which rank is missing.

  std::optional<ProcessIdentity> process = {};  ///< For tests. Default: this process.
};

/// A session of ranks whose messages are carried (message_carrier.h), and which are known to be
/// ranks of one job. The place outlives a start of the job: what processes have left there that
/// have ended is ignored.
///
/// Thread safety: const methods may be called from any thread. In a forked child the destructor
/// does nothing.
class CarriedMeeting {
 public:
  /// On rank 0: begins a session and returns at once. On the others: enters it, and waits until
  /// rank 0 has begun one that this rank has not entered before. `unavailable` if it has not by the
  /// deadline; `already_exists`, with both processes, if another one has this rank;
  /// `invalid_argument` if rank 0 meets for another purpose.
  static Result<std::unique_ptr<CarriedMeeting>> meet(const CarriedMeetingOptions& options,
                                                      Deadline deadline);

  CarriedMeeting(const CarriedMeeting&) = delete;
  CarriedMeeting& operator=(const CarriedMeeting&) = delete;
  /// Removes what it has left, on rank 0 what all ranks have, without waiting.
  ~CarriedMeeting();

  const std::string& session() const noexcept { return session_; }
  /// Lets no more ranks enter. For a session that is over on this rank, but whose messages stay.
  /// Waits until the deadline for that: otherwise a rank that is called now enters it.
  void end(Deadline deadline);
  /// Returns a coordinator for the ranks. This object must outlive it.
  Result<std::unique_ptr<Coordinator>> make_coordinator() const;

 private:
  explicit CarriedMeeting(const CarriedMeetingOptions& options);
  Status lead(Deadline deadline);
  Status follow(Deadline deadline);
  Status claim(Deadline deadline);
  void learn(const RankClaim& claim) const;
  CarriedRequest no_welcome() const;
  Result<std::string> find(const std::string& name, Deadline deadline) const;
  std::string welcome_key(const std::string& purpose) const { return options_.key + "/" + purpose; }
  std::string prefix() const { return options_.key + "/" + session_ + "/"; }
  std::string claim_key(std::uint32_t rank) const {
    return prefix() + "process-" + std::to_string(rank);
  }
  RankClaim own_claim() const;
  std::string conflict_text(const RankClaim& other) const;
  /// `unavailable` if the process of this rank is known to have ended.
  Status find_loss(std::uint32_t rank) const;
  /// Likewise, by what earlier sessions have seen.
  Status find_earlier_loss(std::uint32_t rank) const;
  Status check_process(const RankClaim& claim) const;

  const CarriedMeetingOptions options_;
  const ProcessIdentity process_;
  std::string session_;
  std::string welcome_;  // as rank 0 has published it
  bool is_over_ = false;
  ForkGuard guard_;
  mutable Mutex mutex_;
  mutable std::map<std::uint32_t, RankClaim> claims_ STOKER_GUARDED_BY(mutex_);  // never change
};

}  // namespace stoker
