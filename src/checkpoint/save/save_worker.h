#pragma once

#include <functional>
#include <memory>

#include "checkpoint/save/save_job.h"
#include "checkpoint/save/save_leader.h"
#include "checkpoint/staging/fills.h"
#include "checkpoint/staging/part_writer.h"
#include "checkpoint/staging/staging_memory.h"
#include "checkpoint/staging/stuck_writes.h"
#include "checkpoint/store/checkpoint_store.h"
#include "io/engine/rate_limiter.h"
#include "io/files/timed_file_ops.h"

namespace stoker {

/// Runs a save on each rank, from filled chunks to its result: writes the part, reports to rank 0,
/// and receives the result.
///
/// Thread safety: none; it belongs to the writer's thread.
class SaveWorker {
 public:
  /// Its dependencies; borrowed.
  struct Parts {
    const SaverOptions& options;
    TimedFileOps& ops;
    Coordinator& coordinator;
    SaveLeader* leader;  ///< Null on ranks that neither are rank 0 nor may lead a place.
    StagingMemory& memory;
    SaveMemory& learned;
    RateLimiter* limiter;
    std::function<void()> reservation_changed;  ///< Called after SaveJob::reservation was set.
  };
  explicit SaveWorker(const Parts& parts) : parts_(parts), stuck_(parts.memory) {}

  /// Runs one save and returns its result. Its memory is given back when no other thread touches it
  /// any more. Writes, syncs and copies that do not end by the job's deadline fail the job;
  /// StuckWrites keeps their memory until they end.
  EndMessage run(const std::shared_ptr<SaveJob>& job, const Fills& fills);

 private:
  Status begin(const SaveJob& job);
  Result<WrittenPart> write(SaveJob& job);
  Result<WrittenPart> write_or_fail(SaveJob& job);
  void give_memory_back(const std::shared_ptr<SaveJob>& job, const Fills& fills);
  Status with_disk_hint(const Status& failure, const SaveJob& job) const;
  EndMessage lead(SaveJob& job, const Result<WrittenPart>& written);
  EndMessage follow(SaveJob& job, const Result<WrittenPart>& written);
  EndMessage give_up(const SaveJob& job, const Result<WrittenPart>& written, Status silence);
  Result<std::vector<PartMessage>> hear_parts(const SaveJob& job, const PartMessage& own);
  // If there are several places:
  EndMessage lead_places(SaveJob& job, const Result<WrittenPart>& written);
  EndMessage follow_places(SaveJob& job, const Result<WrittenPart>& written);
  Result<std::vector<PlaceReport>> hear_reports(const SaveJob& job);
  PartMessage placed_part(const SaveJob& job, const Result<WrittenPart>& written);

  Parts parts_;
  std::shared_ptr<const CheckpointStore> store_;
  std::unique_ptr<Engine> engine_;  // reused by the next save, unless one has failed
  StuckWrites stuck_;
  std::unique_ptr<StuckWrite> just_stuck_;  // of the current save
};

}  // namespace stoker
