/// \file
/// One restore by several ranks: all of them restore the same checkpoint, or all fail.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/ranks/coordinator.h"
#include "checkpoint/restore/restore_choice.h"
#include "stoker/status.h"

namespace stoker {

/// How a rank fared with a checkpoint.
struct RestoreReport {
  /// Damage (is_damage()) passes the checkpoint over on all ranks, is_gone() makes them look again,
  /// and anything else ends the restore.
  Status status = {};
  /// What the other ranks are to know of a failure besides: the caller's to write and to read.
  std::string detail = {};
  /// The failure is one of the caller's own code. It ends the restore, whatever its code is.
  bool is_callers = false;

  bool passes_over() const noexcept;
};

/// What is to be restored, and from where.
struct RestoreWish {
  std::string path;                           ///< Of the directory; for messages.
  std::function<Result<StoreHandle>()> open;  ///< Asked again where it is not there yet.
  std::string name = {};                      ///< See RestoreRequest.
  bool finite = false;
  CheckpointReader::Options reader = {};
};

/// What each rank does with a checkpoint. `read` is called once `check`, which touches nothing that
/// is to be restored, has succeeded on every rank.
struct RestoreTrial {
  std::function<RestoreReport(const CheckpointReader&)> check;
  std::function<RestoreReport(const CheckpointReader&)> read;
};

/// Why a restore has failed on every rank.
struct RestoreFailure {
  std::uint32_t rank = 0;  ///< That has said so.
  /// Of a trial; or of rank 0, which has found no checkpoint: with the detail of the first damage
  /// that was reported.
  RestoreReport report = {};
  bool is_of_trial = false;
};

/// The ranks of one restore. They compare what was asked for. Then rank 0 goes through the
/// checkpoints as choose_checkpoint() does; of each it tells the others name, generation and line.
/// Everybody checks it and says how that went, and rank 0 says what follows from all of it. Then
/// everybody reads it, and they agree on that in the same way.
///
/// Messages, by the number n of a round that every rank counts alike (g: gathered on rank 0, b:
/// broadcast by it):
///
///     tried-1 (g) what is asked for, or why it is refused;   compared-1 (b) whether all agree
///     try-n   (b) a checkpoint, or the end: what was chosen, or a failure
///     tried-n (g) how the check went;                        said-n (b) what follows
///     tried-n+1 (g) how reading went;                        said-n+1 (b) what follows
///     tried-n (g) the farewell
///
/// Thread safety: none.
class RestoreAgreement {
 public:
  /// `pause` sleeps while another machine does not see a new name yet; an error ends the wait.
  /// Nothing: it just sleeps.
  RestoreAgreement(Coordinator& coordinator, Deadline deadline,
                   std::function<Status(nanoseconds)> pause = {});

  /// What was restored, or `failure`. Without a name, a directory that is not there has no
  /// checkpoints. Fails itself if a rank does not answer.
  struct Outcome {
    RestoreChoice choice = {};
    std::optional<RestoreFailure> failure = {};
  };
  Result<Outcome> restore(const RestoreWish& wish, const RestoreTrial& trial);

  /// In place of restore(), on a rank that cannot even ask: fails on all of them with its report.
  Status refuse(const RestoreReport& why);

  /// Waits until nobody reads the messages any more. False if a rank may not have heard the end:
  /// the session must then be kept.
  bool take_leave();

 private:
  Result<std::string> tell(const char* what, const std::string& text);
  Result<std::vector<std::string>> hear(const std::string& text);
  Result<std::optional<RestoreFailure>> compare(const std::string& own, const RestoreWish* wish);
  Result<Outcome> lead(const RestoreWish& wish, const RestoreTrial& trial);
  Status lead_one(const CheckpointReader& reader, const RestoreTrial& trial);
  Status lead_in(const RestoreReport& own);
  Result<Outcome> follow(const RestoreWish& wish, const RestoreTrial& trial);
  Result<std::optional<RestoreFailure>> follow_one(const RestoreWish& wish,
                                                   const RestoreTrial& trial,
                                                   std::uint64_t generation,
                                                   const std::string& line);
  Result<std::optional<RestoreFailure>> agree(const RestoreReport& own);
  /// Remembers that a rank was not heard of.
  Status lost(const Status& status);

  Coordinator& coordinator_;
  Deadline deadline_;
  std::function<Status(nanoseconds)> pause_;
  std::uint64_t round_ = 0;
  Status lost_;                            // why the ranks do not hear each other
  std::optional<RestoreFailure> failure_;  // of this restore, which every rank knows
  std::optional<RestoreFailure> damage_;   // the first that passed a checkpoint over
};

}  // namespace stoker
