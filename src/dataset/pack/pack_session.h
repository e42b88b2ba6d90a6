#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "dataset/input/input.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_plan.h"
#include "dataset/pack/pack_writer.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Which of a job's shards a task packs.
enum class TaskShare : std::uint8_t {
  every_nth,  ///< From the task's number on: tasks that start late take from the whole job.
  adjacent,   ///< A run of them: for sources that are read in pieces larger than a shard.
};

/// A pack job at work in its directory, which is locked for as long: alone, or with the job's other
/// tasks. What happens to the shards is the business of whoever opened it.
///
/// Thread safety: const methods from any thread, close() from one.
class PackSession {
 public:
  /// 1. Plans.  2. Makes and locks the directory.  3. Claims it for the job, or finds that it is
  /// the job's.  4. Removes what killed runs have left under private names, and publishes the
  /// source's extra files. Fails as pack() does. A job that is finished needs no step 4.
  static Result<std::unique_ptr<PackSession>> open(FileOps& ops, const PackInput& source,
                                                   const std::string& directory,
                                                   const PackOptions& options, TaskShare share);

  /// Everything in it is looked up from its descriptor, without following a link.
  const PathAt& directory() const noexcept { return directory_; }
  const PackPlan& plan() const noexcept { return plan_; }
  const PackWriterOptions& writer() const noexcept { return writer_; }
  /// Of this task, ascending; some may be packed already.
  const std::vector<std::uint64_t>& shards() const noexcept { return shards_; }
  /// The report of a job that an earlier run has finished: there is nothing to do.
  const std::optional<PackReport>& finished() const noexcept { return finished_; }

  /// When all of shards() are packed, `found` of them before this run: the index and the manifest
  /// of a job with one task, the report of what is there for others. Lets go of the directory.
  Result<PackReport> close(std::uint64_t found);

  /// After a failure: if not one shard is packed, leaves nothing behind, so that another job may
  /// have the directory. One that was made for the job is removed. Does nothing for one of several
  /// tasks: others may be at work.
  void withdraw();

 private:
  PackSession(FileOps& ops, PathAt directory, PackPlan plan, PackWriterOptions writer)
      : ops_(ops),
        directory_(std::move(directory)),
        plan_(std::move(plan)),
        writer_(std::move(writer)) {}
  Status claim(const PackInput& source);

  FileOps& ops_;
  PathAt directory_;
  PackPlan plan_;
  PackWriterOptions writer_;
  std::vector<std::uint64_t> shards_;
  std::optional<PackReport> finished_;
  bool is_alone_ = true;
  std::string made_;  // the directory, if it was not there before; else empty
  UniqueFd lock_;
};

}  // namespace stoker
