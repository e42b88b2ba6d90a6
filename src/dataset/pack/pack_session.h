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
  every_nth,  ///< Every task_count-th shard, from the task's number on.
  adjacent,   ///< Consecutive shards: for inputs that are read in pieces larger than a shard.
};

/// A running pack job. Its directory is locked while the session is open: exclusively, or shared
/// with the job's other tasks. The caller packs the shards.
///
/// Thread safety: const methods from any thread, close() from one.
class PackSession {
 public:
  /// 1. Makes the plan.  2. Creates and locks the directory.  3. Claims it for the job, or checks
  /// that it belongs to the job.  4. Removes what killed runs left under private names, and
  /// publishes the input's extra files; skipped if the job is finished. Fails as pack() does.
  static Result<std::unique_ptr<PackSession>> open(FileOps& ops, const PackInput& input,
                                                   const std::string& directory,
                                                   const PackOptions& options, TaskShare share);

  /// All names in the directory are looked up from its descriptor, without following links.
  const PathAt& directory() const noexcept { return directory_; }
  const PackPlan& plan() const noexcept { return plan_; }
  const PackWriterOptions& writer() const noexcept { return writer_; }
  /// The shards of this task, ascending; some may be packed already.
  const std::vector<std::uint64_t>& shards() const noexcept { return shards_; }
  /// The report of a job that an earlier run has finished; nothing if there is work to do.
  const std::optional<PackReport>& finished() const noexcept { return finished_; }

  /// Call it when all of shards() are packed, `found` of them before this run. If the job has one
  /// task, writes the index and the manifest; otherwise only returns the task's report. Releases
  /// the directory.
  Result<PackReport> close(std::uint64_t found);

  /// Call it after a failure. If no shard is packed, removes everything, so that another job may
  /// use the directory, and the directory itself if it was created for the job. Does nothing for
  /// one of several tasks: others may still be running.
  void withdraw();

 private:
  PackSession(FileOps& ops, PathAt directory, PackPlan plan, PackWriterOptions writer)
      : ops_(ops),
        directory_(std::move(directory)),
        plan_(std::move(plan)),
        writer_(std::move(writer)) {}
  Status claim(const PackInput& input);

  FileOps& ops_;
  PathAt directory_;
  PackPlan plan_;
  PackWriterOptions writer_;
  std::vector<std::uint64_t> shards_;
  std::optional<PackReport> finished_;
  bool is_alone_ = true;
  std::string made_;  // the directory, if this session created it; else empty
  UniqueFd lock_;
};

}  // namespace stoker
