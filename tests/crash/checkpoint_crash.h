/// \file
/// Saves on a model disk or a real filesystem, and the oracle over what a power cut leaves of them.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/catalog/retention.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "io/engine/engine_factory.h"
#include "support/cut_sweep.h"

namespace stoker::testing {

inline const std::string kRunDirectory = "/run/checkpoints";

/// A checkpoint's contents follow from its step and a version: a rewound run saves other bytes
/// under the same step.
struct SavedStep {
  std::uint64_t step = 0;
  int version = 1;

  friend auto operator<=>(const SavedStep&, const SavedStep&) = default;
};

/// The version of a step whose state has gone wrong: its first value is NaN.
inline constexpr int kNonfiniteVersion = 7;

/// Where the checkpoints lie.
struct CheckpointPlace {
  FileOps& ops;
  EngineFactory engine;
  std::string directory = kRunDirectory;
  std::size_t value_count = 1500;  ///< Of the tensor that changes.

  static CheckpointPlace on(ModelDisk& disk, FileOps& ops) {
    return {.ops = ops, .engine = [&disk] { return disk.make_engine({.depth = 8}); }};
  }
};

/// A tensor that changes from save to save, and one that does not and gets linked.
std::map<std::string, std::vector<float>> contents_of_step(const SavedStep& saved,
                                                           std::size_t value_count = 1500);

/// Runs saves one after the other and notes what it was promised:
///   "began S V"         from here on the checkpoint may be there,
///   "acknowledged S V"  from here on it must be,
///   "may go S V"        from here on it need not be: retention will take it.
///
/// Workloads note more themselves:
///   "pinned S V"        from here on it must be there, whatever may go: the pin has returned OK,
///   "aside S V"         a dead writer has it in its directory: it must be there after a takeover,
///   "swept"             there was one,
///   "ranks"             several ranks meet in a directory, which may outlive them.
/// A mark may name several, as "began 10 1 20 1".
///
/// Thread safety: none.
class CrashSaver {
 public:
  struct Options {
    std::string token = "workload";
    std::string boot = "boot";  ///< A cut of the power ends it.
    std::optional<CheckpointParent> parent = {};
    RetentionRules retention = {};
    CachePolicy policy = CachePolicy::buffered;
    bool is_room_checked = false;    ///< Asks for room before it copies; else it finds out.
    bool acknowledge_early = false;  ///< A mutant: when the bytes are written.
    /// Of several ranks: each saves its slice of the tensor that changes, the last one the other.
    std::shared_ptr<Coordinator> coordinator = {};
    std::uint32_t in_flight = 1;
  };

  using Note = std::function<void(const std::string& mark)>;

  /// `place.ops` may be a mutant, and `note` nothing.
  CrashSaver(const CheckpointPlace& place, Note note, const Options& options);
  /// `ops` may be a mutant over the disk. `run` may be null: nothing is noted then.
  CrashSaver(ModelDisk& disk, FileOps& ops, CutRun* run, const Options& options);
  CrashSaver(const CrashSaver&) = delete;
  CrashSaver& operator=(const CrashSaver&) = delete;
  ~CrashSaver();

  Status save(const SavedStep& saved);
  /// Copies and returns; finish() waits for the oldest of them, and notes.
  Status begin(const SavedStep& saved);
  Status finish();
  Status close();
  /// Of the last one committed.
  std::uint64_t generation() const { return generation_; }

 private:
  void note(const char* what, const SavedStep& saved);
  SaveRequest request_of(const SavedStep& saved,
                         const std::map<std::string, std::vector<float>>& contents) const;

  /// Notes what is acknowledged on the writer's thread, before it removes others.
  class NotingFileOps;

  Mutex note_mutex_;
  Note note_ STOKER_GUARDED_BY(note_mutex_);  // called by this thread and the writer's
  std::unique_ptr<NotingFileOps> ops_;
  Deadline now_ = Clock::now();  // of the lock
  std::size_t value_count_;
  bool acknowledge_early_;
  std::shared_ptr<Coordinator> coordinator_;  // null: alone
  std::deque<std::pair<SavedStep, PendingSave>> pending_;
  std::unique_ptr<CheckpointSaver> saver_;
  std::uint64_t generation_ = 0;
  std::optional<SavedStep> left_;  // committed, but `latest` did not move
};

/// "acknowledged 10 1"
std::string mark_of(const char* what, const SavedStep& saved);
void note_may_go(CutRun& run, const SavedStep& saved);

struct RanksPlan {
  std::uint32_t rank_count = 3;
  std::vector<SavedStep> saves = {};
  std::string session = "job";
  std::optional<CheckpointParent> parent = {};
  RetentionRules retention =
      {};  ///< What keep_last gives up is noted; with other rules nothing is.
  CachePolicy policy = CachePolicy::buffered;
  /// What each rank writes through; the place's if it is empty.
  std::function<FileOps&(std::uint32_t rank)> ops = {};
};

/// Ranks with threads of their own, which share the directory and nothing else. A save counts as
/// acknowledged as soon as it is on one of them. Returns the last generation.
std::uint64_t save_on_ranks(const CheckpointPlace& place, const CrashSaver::Note& note,
                            const RanksPlan& plan);

/// What must hold after the power came back. Empty, or what is wrong:
/// 1. every checkpoint in the directory is whole, to the bit, and is one that was begun;
/// 2. every acknowledged or pinned one is there, under its own name or that of a superseded one;
/// 3. a restore takes the newest acknowledged one, or a newer one;
/// 4. `latest`, once something was acknowledged, leads to such a one too; to an older one only if
///    the save has said that it did not move;
/// 5. the next save works, harms none of them, and leaves no name but `.lock`, one epoch,
///    `.catalog`, `latest`, `notes` with its lock and files, and checkpoints; and directories in
///    which ranks met. A further one that keeps only itself removes nothing that is pinned.
std::string checkpoints_hold_in(const CheckpointPlace& place, const CutPoint& point);
std::string checkpoints_hold(ModelDisk& disk, const CutPoint& point);

}  // namespace stoker::testing
