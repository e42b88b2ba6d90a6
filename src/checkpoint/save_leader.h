#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/checkpointer.h"
#include "checkpoint/commit.h"
#include "checkpoint/history.h"
#include "checkpoint/save_job.h"
#include "checkpoint/save_messages.h"
#include "checkpoint/step_removal.h"
#include "checkpoint/writer_lock.h"

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
  /// `options` is borrowed.
  SaveLeader(const CheckpointerOptions& options, FileOps& ops, Coordinator& coordinator)
      : options_(options),
        ops_(ops),
        coordinator_(coordinator),
        checked_(ops, options.directory),
        committed_(ops, options.directory),
        head_(options.parent) {}

  /// Takes the lock, if this is the first time.
  Status ready();

  /// What is to become of a save of which every rank has told.
  Verdict decide(std::uint64_t number, std::span<const BeginMessage> messages,
                 const SavesInFlight& in_flight);

  /// Every rank's part is durable: merges and commits them, and hides the checkpoints that nobody
  /// wants any more. On failure the staging directory is removed.
  EndMessage commit(const SaveJob& job, const CheckpointPart& own_part);
  /// Whether commit() has hidden some; then remove_hidden() frees their blocks.
  bool has_hidden() const noexcept { return !hidden_.empty(); }
  Status remove_hidden();
  /// A rank has failed.
  void discard(const SaveJob& job);
  /// `failure`, told as what it is where it comes of a rank that has given the save up. To be asked
  /// before discard().
  Status explain(const SaveJob& job, const Status& failure) const;

  /// Waits until the other ranks have closed as well, because they read rank 0's last words in the
  /// staging directory, then frees the lock. Nothing may be in flight.
  void release(Deadline deadline);

 private:
  Status check(std::span<const BeginMessage> messages, const SavesInFlight& in_flight);
  Result<std::vector<CheckpointPart>> read_parts(const SaveJob& job,
                                                 const CheckpointPart& own_part) const;
  Result<CheckpointManifest> make_manifest(const SaveJob& job, const CheckpointPart& own_part);
  std::optional<CheckpointParent> head() const;

  const CheckpointerOptions& options_;
  FileOps& ops_;
  Coordinator& coordinator_;
  std::unique_ptr<WriterLock> lock_;
  History checked_;    // the caller's thread's
  History committed_;  // the writer's thread's
  std::vector<std::string> hidden_;
  mutable Mutex mutex_;
  std::optional<CheckpointParent> head_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
