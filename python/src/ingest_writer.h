#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/fork_guard.h"
#include "base/unique_fd.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_writer.h"
#include "io/files/file_ops.h"
#include "memory_source.h"
#include "stoker/status.h"

namespace stoker::python {

/// Writes shards, one at a time, from samples that nobody knows beforehand. Shards become visible
/// whole, as in pack(); index and manifest come at the end. A run that ends early takes its shards
/// back, unless it is killed: the directory has no manifest then, and is refused the next time.
///
/// Thread safety: none.
class IngestWriter {
 public:
  /// `already_exists` unless `directory` is new or empty.
  static Result<std::unique_ptr<IngestWriter>> make(FileOps& ops, std::string directory,
                                                    std::string format);
  IngestWriter(const IngestWriter&) = delete;
  IngestWriter& operator=(const IngestWriter&) = delete;
  /// Abandons what is not finished.
  ~IngestWriter();

  /// Writes the next shard. The first sample of the first one decides the columns of MDS, and the
  /// dtype of tokens.
  Status write_shard(const std::vector<IngestedSample>& samples);
  /// `invalid_argument` if there is no shard.
  Result<PackReport> finish();
  /// Takes the shards back and what was made beside them, unless finish() has succeeded, and lets
  /// go of the directory, which stays. Does nothing in a forked child: the parent may still go on.
  void abandon();

 private:
  IngestWriter(FileOps& ops, PathAt directory, std::string format);
  Status begin(const PackInput& source);

  FileOps& ops_;
  PathAt directory_;
  UniqueFd lock_;
  PackJob job_;
  PackWriterOptions writer_;
  ForkGuard guard_;
  bool is_finished_ = true;  ///< Nothing to take back, until the directory is ours.
};

}  // namespace stoker::python
