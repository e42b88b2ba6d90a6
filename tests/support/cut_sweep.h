#pragma once

#include <cstddef>
#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "support/model_disk.h"

namespace stoker::testing {

/// Where the power was cut.
struct CutPoint {
  std::size_t number = 0;               ///< Of the operation after which it was.
  std::string operation = {};           ///< "rename /run/manifest"
  std::vector<std::string> marks = {};  ///< What the workload had noted by then, in order.

  bool has(const std::string& mark) const;
  /// How many marks begin so.
  std::size_t count(const std::string& prefix) const;
};

/// The states that oracles have been shown, over one sweep or several of the same oracle: none is
/// looked at twice.
///
/// Thread safety: every method from any thread.
class SeenStates {
 public:
  /// False if that tree was seen with those promises. `is_new_tree` says whether with any.
  bool add(const Digest128& tree, const Digest128& promises, bool& is_new_tree);
  std::size_t tree_count() const;
  /// Trees, each counted once for each set of promises under which it was shown.
  std::size_t checked_count() const;

 private:
  using Key = std::pair<std::uint64_t, std::uint64_t>;

  mutable Mutex mutex_;
  std::set<Key> trees_ STOKER_GUARDED_BY(mutex_);
  std::set<std::pair<Key, Key>> checked_ STOKER_GUARDED_BY(mutex_);
};

struct SweepOptions {
  CutOptions cut = {};
  ModelState start = {};  ///< The disk that the workload finds; all of it is durable.
  /// Ends at this number of violations: of a mutant one is enough.
  std::size_t violations_max = ~std::size_t{0};
  SeenStates* seen = nullptr;    ///< Of the sweeps before; nothing: of this one alone.
  std::size_t thread_count = 0;  ///< Looking at states; 0: one for each core, at most 4.
};

struct SweepReport {
  std::size_t operation_count = 0;  ///< Calls, completions and crash points: cuts tried.
  std::size_t state_count = 0;      ///< Legal states, summed over the cuts.
  std::size_t distinct_count = 0;   ///< Trees among them that were not seen before.
  std::size_t checked_count = 0;    ///< Times the oracle was asked: a tree with other marks is new.
  std::size_t violation_count = 0;
  std::vector<std::string> violations = {};  ///< The first of them, each with its cut and state.

  /// All of it on a few lines, for a failing test.
  std::string text() const;
  /// Puts the counts into the test's record, each name behind `prefix`.
  void record(const std::string& prefix) const;
};

/// What a workload gets: the disk, and a place to note what it has been promised.
///
/// Thread safety: every method from any thread.
class CutRun {
 public:
  explicit CutRun(const ModelState& start);

  ModelDisk& disk() { return disk_; }
  /// "acknowledged 7": from here on every state has to show it. A cut is tried here too.
  void note(std::string mark);

 private:
  friend SweepReport for_each_cut(const std::function<void(CutRun&)>& workload,
                                  const std::function<std::string(ModelDisk&, const CutPoint&)>&,
                                  const SweepOptions& options);
  friend class Sweep;
  struct Shot {
    ModelState state;
    CutPoint point;
  };
  void take(const ModelState& state, const std::string& operation);

  std::vector<Shot> take_shots();

  ModelDisk disk_;
  Mutex mutex_;
  std::vector<std::string> marks_ STOKER_GUARDED_BY(mutex_);
  std::vector<Shot> shots_ STOKER_GUARDED_BY(mutex_);
};

/// Runs in one go what a power cut could interrupt.
using Workload = std::function<void(CutRun&)>;
/// Looks at a disk after the power came back, and may continue to work on it. Empty if all is well,
/// otherwise what is wrong. Must answer alike for equal trees and marks, and on several threads.
using Oracle = std::function<std::string(ModelDisk&, const CutPoint&)>;

/// Cuts the power after every operation of the workload, and shows every legal state after that cut
/// to the oracle. The workload runs once, and is photographed after each operation: a cut has no
/// influence on what was before it, so this is the same as running it again for each. The oracle
/// runs when it has ended, on disks of its own.
SweepReport for_each_cut(const Workload& workload, const Oracle& oracle,
                         const SweepOptions& options = {});

}  // namespace stoker::testing
