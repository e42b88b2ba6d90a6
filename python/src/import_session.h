#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "dataset/input/input_memory.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_session.h"
#include "dataset/pack/pack_shard.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker::python {

/// What is known about rows before they are read.
struct ImportedRows {
  std::uint64_t count = 0;
  std::uint64_t mean_bytes = 0;            ///< Mean size of a row, if `sizes_bytes` is empty.
  std::vector<std::uint64_t> sizes_bytes;  ///< Approximate size of each row.
  std::string fingerprint;                 ///< Changes if the rows or the selection changes.
};

/// One shard of an import, before it is published.
///
/// Thread safety: none.
class ImportShard {
 public:
  ImportShard(std::unique_ptr<ShardPacker> packer, std::uint64_t first)
      : packer_(std::move(packer)), next_(first) {}
  ImportShard(ImportShard&&) = default;
  ImportShard& operator=(ImportShard&&) = default;
  /// Removes an unfinished shard; does nothing in a forked child.
  ~ImportShard() { abandon(); }

  /// Adds samples. The message of a failure names the sample.
  Status append(const std::vector<IngestedSample>& samples);
  Status finish();
  void abandon();

 private:
  std::unique_ptr<ShardPacker> packer_;
  std::uint64_t next_;  // number of the next sample in the dataset
  ForkGuard guard_;
};

/// Packs rows that Python reads, by the plan and in the directory of a PackSession. Python threads
/// read rows and pass them here, so that no native thread needs the GIL.
///
/// Thread safety: begin_shard() and the const methods from any thread; close() once, after all
/// shards are finished.
class ImportSession {
 public:
  /// Plans and claims the directory. `first` is the first row, which determines the columns of MDS
  /// and the dtype of tokens, in the same way in every task.
  static Result<std::unique_ptr<ImportSession>> open(FileOps& ops, const std::string& directory,
                                                     const PackOptions& options,
                                                     const ImportedRows& rows,
                                                     const IngestedSample& first);

  const PackSession& session() const noexcept { return *session_; }
  /// Returns this task's shards that are not packed yet. Removes what a killed run left of them.
  Result<std::vector<std::uint64_t>> find_pending();
  Result<std::unique_ptr<ImportShard>> begin_shard(std::uint64_t shard);
  Result<PackReport> close();
  void withdraw() { session_->withdraw(); }

 private:
  ImportSession(FileOps& ops, std::unique_ptr<PackSession> session)
      : ops_(ops), session_(std::move(session)) {}

  FileOps& ops_;
  std::unique_ptr<PackSession> session_;
  std::uint64_t found_ = 0;
};

}  // namespace stoker::python
