#pragma once

#include <functional>
#include <memory>

#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_leader.h"
#include "checkpoint/staging/part_writer.h"
#include "checkpoint/staging/staging_memory.h"
#include "checkpoint/staging/stuck_writes.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/engine/rate_limiter.h"
#include "io/files/timed_file_ops.h"

namespace stoker {

/// Takes a save from filled chunks to its end, on every rank: writes the part, tells rank 0, hears
/// how it ended.
///
/// Thread safety: none; it belongs to the writer's thread.
class SaveWorker {
 public:
  /// What it works with; borrowed.
  struct Parts {
    const CheckpointerOptions& options;
    TimedFileOps& ops;
    Coordinator& coordinator;
    SaveLeader* leader;  ///< Null on other ranks than 0.
    StagingMemory& memory;
    SaveMemory& learned;
    RateLimiter* limiter;
    std::function<void()> reservation_changed;  ///< A job's; called after it was set.
  };
  explicit SaveWorker(const Parts& parts) : parts_(parts), stuck_(parts.memory) {}

  /// `await_filled` returns when the caller's threads no longer touch the job's memory, which is
  /// given back by then. Writes and syncs that do not end by the job's deadline fail it, and are
  /// kept aside.
  EndMessage run(SaveJob& job, const std::function<void()>& await_filled);

 private:
  Status begin(const SaveJob& job);
  Result<WrittenPart> write(SaveJob& job);
  Result<WrittenPart> write_or_fail(SaveJob& job);
  void give_memory_back(SaveJob& job);
  EndMessage lead(SaveJob& job, const Result<WrittenPart>& written);
  EndMessage follow(SaveJob& job, const Result<WrittenPart>& written);

  Parts parts_;
  std::shared_ptr<const CheckpointStore> store_;
  std::unique_ptr<Engine> engine_;  // kept from save to save; a failed one is not
  StuckWrites stuck_;
  std::unique_ptr<StuckWrite> just_stuck_;  // of the save at hand
};

}  // namespace stoker
