/// \file
/// A restore by several ranks: all of them restore the same checkpoint, or all fail.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/restore/restore_places.h"
#include "stoker/status.h"

namespace stoker {

/// The result of one rank for a checkpoint.
struct RestoreReport {
  /// If is_damage(), all ranks skip the checkpoint; if is_gone(), they list again; any other error
  /// ends the restore.
  Status status = {};
  /// Additional information for the other ranks about a failure; opaque.
  std::string detail = {};
  /// The failure was raised by the caller's own code. It ends the restore, whatever its code.
  bool is_callers = false;
  /// After a check that has succeeded: what the checkpoint has and this rank lacks, a line of text
  /// for each. The restore fails if all ranks lack the same: a rank may have a part of a model.
  std::vector<std::string> lacks = {};
  /// It does not fail if no rank wants it to: it lists the lines.
  bool is_lenient = false;

  bool passes_over() const noexcept;
};

/// What a rank asks to restore, and from where.
struct RankRequest {
  std::string path;                           ///< Path of the store, for messages.
  std::function<Result<StoreHandle>()> open;  ///< Called again if the store is not visible yet.
  std::string name = {};                      ///< See RestoreRequest.
  bool finite = false;
  CheckpointReader::Options reader = {};
  /// The ranks may have different directories (manifest/places.h): only checkpoints that all of
  /// them have are restored. The same on every rank.
  bool has_private_disks = false;
};

/// What each rank does with a checkpoint. `check` must not modify the state to be restored; `read`
/// is called after `check` has succeeded on every rank.
struct RestoreTrial {
  std::function<RestoreReport(const CheckpointReader&)> check;
  std::function<RestoreReport(const CheckpointReader&)> read;
};

/// Why a restore has failed on every rank.
struct RestoreFailure {
  std::uint32_t rank = 0;  ///< The rank that has reported it.
  /// The report of a trial; or that of rank 0, which has found no checkpoint, with the detail of
  /// the first reported damage.
  RestoreReport report = {};
  bool is_of_trial = false;
};

/// The agreement of the ranks on one restore. They first compare their requests. Then rank 0 goes
/// through the checkpoints as choose_checkpoint() does, and sends the name, generation and line of
/// each to the others. Every rank checks the checkpoint and reports the result, and rank 0
/// announces the decision. Then every rank reads it, and they agree on that in the same way. If
/// nodes have private disks, the ranks first tell what they have, and rank 0 skips what not all of
/// them have.
///
/// Messages, by the number n of a round, which is the same on every rank (g: gathered on rank 0, b:
/// broadcast by it):
///
///     tried-1 (g) the request, or why it is refused;         compared-1 (b) whether all agree
///     tried-2 (g) what the rank has;                         compared-2 (b) whether all could tell
///     try-n   (b) a checkpoint, or the end: the choice, or a failure
///     tried-n (g) the result of the check;                   said-n (b) the decision
///     tried-n+1 (g) the result of the read;                  said-n+1 (b) the decision
///     tried-n (g) that the end has come, if it is a choice and no checkpoint was tried
///     tried-n (g) the farewell
///
/// Thread safety: none.
class RestoreAgreement {
 public:
  /// `pause` sleeps while this machine does not see a new name yet; an error ends the wait. Empty:
  /// sleep_for().
  RestoreAgreement(Coordinator& coordinator, Deadline deadline,
                   std::function<Status(nanoseconds)> pause = {});

  /// The restored checkpoint, or `failure`.
  struct Outcome {
    RestoreChoice choice = {};
    std::optional<RestoreFailure> failure = {};
    std::vector<std::string> unused = {};  ///< What all ranks lack, if they are lenient.
  };
  /// Restores a checkpoint on all ranks. If `request` names none, a missing directory counts as one
  /// without checkpoints. Returns an error if a rank does not answer.
  Result<Outcome> restore(const RankRequest& request, const RestoreTrial& trial);

  /// Called instead of restore() on a rank that cannot make a request: restore() then fails on all
  /// ranks with this report.
  Status refuse(const RestoreReport& why);

  /// Waits until no rank reads messages any more. Returns false if a rank may not have received the
  /// last one: the session must then be kept.
  bool take_leave();

 private:
  Result<std::string> tell(const char* what, const std::string& text);
  Result<std::vector<std::string>> hear(const std::string& text);
  Result<std::optional<RestoreFailure>> compare(const std::string& own, const RankRequest* request);
  Result<std::optional<RestoreFailure>> compare_places(const RankRequest& request);
  Result<RestoreChoice> choose(const RankRequest& request, const TryCheckpoint& attempt) const;
  Result<Outcome> lead(const RankRequest& request, const RestoreTrial& trial);
  Status lead_one(const CheckpointReader& reader, const RestoreTrial& trial);
  Status lead_in(const RestoreReport& own);
  Status confirm();
  Result<Outcome> follow(const RankRequest& request, const RestoreTrial& trial);
  Result<std::optional<RestoreFailure>> follow_one(const RankRequest& request,
                                                   const RestoreTrial& trial,
                                                   std::uint64_t generation,
                                                   const std::string& line);
  Result<std::optional<RestoreFailure>> agree(const RestoreReport& own);
  /// Records the error of a failed exchange of messages, and returns it.
  Status lost(const Status& status);

  Coordinator& coordinator_;
  Deadline deadline_;
  std::function<Status(nanoseconds)> pause_;
  std::uint64_t round_ = 0;
  bool is_tried_ = false;              // rank 0 has sent a checkpoint to the other ranks
  std::vector<HeldCheckpoints> held_;  // if disks are private: of all ranks, or else of this one
  Status lost_;                        // the first failed exchange of messages
  std::optional<RestoreFailure> failure_;  // ends this restore; known to every rank
  std::optional<RestoreFailure> damage_;   // the first failure that skipped a checkpoint
  std::vector<std::string> unused_;        // see Outcome; of the last check
};

}  // namespace stoker
