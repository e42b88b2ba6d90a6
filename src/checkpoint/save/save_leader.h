#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/catalog/history.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/save/checkpoint_saver.h"
#include "checkpoint/save/commit.h"
#include "checkpoint/save/place_rounds.h"
#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_messages.h"
#include "checkpoint/save/save_store.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// The saves that were begun and have not ended.
struct SavesInFlight {
  std::vector<std::uint64_t> steps;
  std::uint64_t unreserved_bytes = 0;  ///< Disk space that they still need.
};

/// `no_space` if a checkpoint needs more space than is free, with what to do about it.
/// `unreserved_bytes`: what earlier saves still need.
Status check_space(const std::string& where, std::uint64_t new_bytes,
                   std::uint64_t unreserved_bytes, std::uint64_t free_bytes);

/// The duties of rank 0: holds the lock, decides about each save, commits it. If nodes have private
/// disks, the first rank of each other place has one as well, for the lock and the commit there.
///
/// Thread safety: ready(), decide() and release() on the caller's thread; the others on the
/// writer's.
class SaveLeader {
 public:
  /// All arguments are borrowed. `caller_ops` serves the caller's thread and those of the lock,
  /// `writer_ops` the writer's thread.
  SaveLeader(const SaverOptions& options, Coordinator& coordinator, FileOps& caller_ops,
             FileOps& writer_ops)
      : options_(options),
        coordinator_(coordinator),
        caller_ops_(caller_ops),
        writer_ops_(writer_ops),
        retention_(options.retention),
        head_(options.parent) {}

  /// Takes the lock on the first call, after another writer has taken over, and if the path leads
  /// to another directory now. `is_idle`: no save is in flight. Waits for the lock until shortly
  /// before `deadline`, or as long as LockOptions::timeout says if that is shorter.
  Status ready(bool is_idle, Deadline deadline);

  /// Returns the token of the lock; empty while it is not held.
  std::string token() const;

  /// Decides about a save, given the messages of all ranks. `new_bytes`: disk space that it needs
  /// on all of them. That of several places is not checked here.
  Verdict decide(std::uint64_t number, std::span<const BeginMessage> messages,
                 const SavesInFlight& in_flight, std::uint64_t new_bytes);

  /// Merges and commits the parts, which are durable on every rank, and hides the checkpoints that
  /// retention does not keep. If the commit fails, discards what was staged.
  EndMessage commit(const SaveJob& job, const CheckpointPart& own_part);

  // Saves to several places (manifest/places.h), on the first rank of each:

  /// A manifest, and the text that was checked and is to be stored.
  struct MadeManifest {
    CheckpointManifest manifest;
    std::string text;
  };
  /// Returns the greatest generation that this place has used up.
  Result<std::uint64_t> used_generation();
  /// On rank 0: merges the parts. `generation`: the greatest that another place has used up.
  Result<MadeManifest> merge(const SaveJob& job, std::vector<CheckpointPart> parts,
                             std::uint64_t generation);
  /// Commits the checkpoint in this place, together with the others.
  EndMessage commit_place(const SaveJob& job, const MadeManifest& made, PlaceRounds& rounds);
  /// After commit_place(): tells what this place has, with the notes as they are now.
  PlaceReport report();
  /// On rank 0, after commit_place(): decides what stays in all places. `reports` are of the
  /// others.
  void choose_kept(std::span<const PlaceReport> reports, EndMessage& end);
  /// Hides what rank 0 has dropped, and what only this place has and its rules do not keep.
  Status retire_others(const EndMessage& end);

  /// Whether commit() or retire_others() has hidden checkpoints; remove_condemned() then frees
  /// their blocks.
  bool has_condemned() const noexcept { return !condemned_.empty(); }
  Status remove_condemned();
  /// Discards what was staged for a failed save.
  void discard(const SaveJob& job);
  /// Returns `failure`; `unavailable` with the cause if a rank has abandoned the save or another
  /// writer has taken over. Call it before discard().
  Status explain(const SaveJob& job, const Status& failure);
  /// After a save that has failed elsewhere: if another writer has taken over, the next save takes
  /// the lock again.
  void let_go_if_fenced();
  /// Gives up the lock; the next save takes it again. Not while saves are in flight.
  void let_go();

  /// Releases the lock. No save may be in flight.
  void release() { let_go(); }

 private:
  /// State that exists while the lock is held.
  struct Held {
    SaveStores stores;
    std::unique_ptr<StoreLock> lock;
    std::string line;  ///< Line of the checkpoints committed under this lock (lineage.h).
    std::unique_ptr<CheckpointWriter> writer;
    History checked;    ///< Used by the caller's thread.
    History committed;  ///< Used by the writer's thread, as are the members below.
    NotesReader notes;
    bool has_numbered = false;  ///< The generations in notes are known.
    std::unique_ptr<CatalogKeeper> catalog = {};
    std::size_t catalog_added = 0;  ///< Lines added to it, including those of removed checkpoints.
  };

  std::shared_ptr<Held> held() const;
  static Status not_held() { return Status(Code::not_found, "the lock is not held any more"); }
  Result<std::unique_ptr<StoreLock>> take_lock(const CheckpointStore& store,
                                               Deadline deadline) const;
  Status check(std::span<const BeginMessage> messages, const SavesInFlight& in_flight,
               std::uint64_t new_bytes, Held& held);
  Result<std::vector<CheckpointPart>> read_parts(const SaveJob& job, const CheckpointPart& own_part,
                                                 const Held& held) const;
  Result<std::uint64_t> next_generation(Held& held) const;
  Result<MadeManifest> make_manifest(const SaveJob& job, std::vector<CheckpointPart> parts,
                                     Held& held);
  void move_head(const CheckpointManifest& manifest);
  RetentionReport retire_dropped(const EndMessage& end, Held& held) const;
  EndMessage fail_staged(const SaveJob& job, const Status& failure);
  EndMessage commit_made(const SaveJob& job, const MadeManifest& made, Held& held);
  /// Adds to `failure` that the checkpoint is committed but `what`, and who has taken over, if so.
  Status explain_behind_commit(const Status& failure, const char* what, Held& held);
  /// Returns false if `held.committed` could not be brought up to date.
  bool add_to_catalog(const CheckpointManifest& manifest, Held& held);
  bool keeps_all(Held& held) const;
  std::optional<CheckpointParent> head() const;

  const SaverOptions& options_;
  Coordinator& coordinator_;
  FileOps& caller_ops_;
  FileOps& writer_ops_;
  RetentionRules retention_;  // used by the writer's thread
  std::vector<std::string> condemned_;
  mutable Mutex mutex_;
  std::shared_ptr<Held> held_ STOKER_GUARDED_BY(mutex_);  // null while the lock is not held
  std::optional<CheckpointParent> head_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
