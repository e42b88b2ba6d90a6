/// \file
/// What checkpointing runs do while the power may be cut, and the disks that they find.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "crash/checkpoint_crash.h"

namespace stoker::testing {

/// A workload that saves through `ops`, which is the run's disk or a mutant of it.
using SavingWorkload = std::function<void(CutRun&, FileOps&)>;

/// A disk with an empty directory /run, durable.
ModelState empty_run();

/// Three saves; from the second on the tensor that does not change is linked.
void save_three(CutRun& run, FileOps& ops);
/// As many, of which retention leaves one.
void save_keeping_one(CutRun& run, FileOps& ops);

/// The pin has returned OK.
void note_pinned(CutRun& run, const SavedStep& saved);

/// Ranks on the run's disk.
std::uint64_t save_on_ranks(CutRun& run, const RanksPlan& plan);

struct CrashScenario {
  std::string name;
  SavingWorkload workload;
  ModelState start;
  /// Ranks leave many messages and files that nobody has synced: a few of their states tell as
  /// much.
  bool is_broad = false;
};

/// All that the count of states is made of: saves, links, rewinds, retention, notes, takeovers,
/// sweeps, failures, several ranks.
std::vector<CrashScenario> crash_scenarios();

/// checkpoints_hold(), and: a note says what was annotated last, or what was being annotated.
std::string checkpoints_and_notes_hold(ModelDisk& disk, const CutPoint& point);

}  // namespace stoker::testing
