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
#include "checkpoint/save/checkpointer.h"
#include "checkpoint/save/commit.h"
#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_messages.h"
#include "checkpoint/save/save_store.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// The saves that were begun and are not committed yet.
struct SavesInFlight {
  std::vector<std::uint64_t> steps;
  std::uint64_t unreserved_bytes = 0;  ///< What they will still take of the disk.
};

/// What rank 0 does for all: holds the lock, decides about each save, commits it.
///
/// Thread safety: ready(), decide() and release() on the caller's thread; the others on the
/// writer's.
class SaveLeader {
 public:
  /// `options` is borrowed. `writer_ops`: the calls of the writer's thread.
  SaveLeader(const CheckpointerOptions& options, Coordinator& coordinator, FileOps& writer_ops)
      : options_(options),
        coordinator_(coordinator),
        writer_ops_(writer_ops),
        retention_(options.retention),
        head_(options.parent) {}

  /// Takes the lock, if this is the first time, another writer has taken over since, or the path
  /// leads to another directory now. `is_idle`: no save is in flight.
  Status ready(bool is_idle);

  /// What is to become of a save of which every rank has told.
  Verdict decide(std::uint64_t number, std::span<const BeginMessage> messages,
                 const SavesInFlight& in_flight);

  /// Every rank's part is durable: merges and commits them, and takes the checkpoints that nobody
  /// wants any more out of sight. On failure the staging directory is removed.
  EndMessage commit(const SaveJob& job, const CheckpointPart& own_part);
  /// Whether commit() has taken some out of sight; then remove_condemned() frees their blocks.
  bool has_condemned() const noexcept { return !condemned_.empty(); }
  Status remove_condemned();
  /// A rank has failed.
  void discard(const SaveJob& job);
  /// `failure`, told as what it is where it comes of a rank that has abandoned the save, or of a
  /// takeover. To be asked before discard().
  Status explain(const SaveJob& job, const Status& failure);

  /// Waits until the other ranks have closed as well, because they read rank 0's last words, then
  /// frees the lock. Nothing may be in flight.
  void release(Deadline deadline);

 private:
  /// What there is while the lock is held.
  struct Held {
    SaveStores stores;
    std::unique_ptr<StoreLock> lock;
    std::string line;  ///< Of the checkpoints that are committed meanwhile (lineage.h).
    std::unique_ptr<CheckpointWriter> writer;
    History checked;    ///< The caller's thread's.
    History committed;  ///< The writer's thread's, as the rest.
    NotesReader notes;
    bool has_numbered = false;  ///< A checkpoint: the generations in notes are known.
    std::unique_ptr<CatalogKeeper> catalog = {};
    std::size_t catalog_added = 0;  ///< Lines that were added to it, gone ones among them.
  };

  std::shared_ptr<Held> held() const;
  void let_go();
  Status check(std::span<const BeginMessage> messages, const SavesInFlight& in_flight, Held& held);
  Result<std::vector<CheckpointPart>> read_parts(const SaveJob& job, const CheckpointPart& own_part,
                                                 const Held& held) const;
  Result<std::uint64_t> next_generation(Held& held) const;
  Result<CheckpointManifest> make_manifest(const SaveJob& job, const CheckpointPart& own_part,
                                           Held& held);
  EndMessage commit_made(const SaveJob& job, const CheckpointManifest& manifest, Held& held);
  /// False if what is there is not known now.
  Status explain_behind_commit(const Status& failure, const char* what, Held& held);
  bool add_to_catalog(const CheckpointManifest& manifest, Held& held);
  bool keeps_all(Held& held) const;
  std::optional<CheckpointParent> head() const;

  const CheckpointerOptions& options_;
  Coordinator& coordinator_;
  FileOps& writer_ops_;
  RetentionRules retention_;  // the writer's thread's
  std::vector<std::string> condemned_;
  mutable Mutex mutex_;
  std::shared_ptr<Held> held_ STOKER_GUARDED_BY(mutex_);  // null before the first, and when fenced
  std::optional<CheckpointParent> head_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
