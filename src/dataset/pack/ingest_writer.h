#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "base/unique_fd.h"
#include "dataset/input/input_memory.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_writer.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Writes shards, one at a time, from samples that are not known in advance. Shards are published
/// atomically, as in pack(); index and manifest are written at the end. A run that fails removes
/// its shards; one that is killed leaves a directory without a manifest, which is refused the next
/// time.
///
/// Thread safety: none.
class IngestWriter {
 public:
  /// `already_exists` unless `directory` is new or empty.
  static Result<std::unique_ptr<IngestWriter>> make(FileOps& ops, std::string directory,
                                                    std::string format);
  IngestWriter(const IngestWriter&) = delete;
  IngestWriter& operator=(const IngestWriter&) = delete;
  /// Calls abandon().
  ~IngestWriter();

  /// Writes the next shard. The first sample of the first shard determines the columns of MDS and
  /// the dtype of tokens.
  Status write_shard(const std::vector<IngestedSample>& samples);
  /// Writes index and manifest. `invalid_argument` if there is no shard.
  Result<PackReport> finish();
  /// Removes the shards and the files beside them, unless finish() has succeeded, and unlocks the
  /// directory, which is kept. Does nothing in a forked child, because the parent may still be
  /// writing.
  void abandon();

 private:
  IngestWriter(FileOps& ops, PathAt directory, std::string format);
  Status begin(const PackInput& input);

  FileOps& ops_;
  PathAt directory_;
  UniqueFd lock_;
  PackJob job_;
  PackWriterOptions writer_;
  ForkGuard guard_;
  bool is_finished_ = true;  ///< Nothing to remove until the directory is claimed.
};

}  // namespace stoker
