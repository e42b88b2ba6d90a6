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

struct RanksPlan {
  std::uint32_t rank_count = 3;
  std::vector<SavedStep> saves = {};
  std::string session = "job";
  std::optional<CheckpointParent> parent = {};
  RetentionRules retention = {};
  /// What each rank writes through; the run's disk if it is empty.
  std::function<FileOps&(std::uint32_t rank)> ops = {};
};

/// Ranks with threads of their own, which share the directory and nothing else. A save counts as
/// acknowledged as soon as it is on one of them. Returns the last generation.
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
