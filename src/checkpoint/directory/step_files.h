#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/mutex.h"
#include "checkpoint/manifest/manifest.h"
#include "checkpoint/store/open_step.h"
#include "io/chunk_reader.h"
#include "io/files/file.h"
#include "io/files/path_at.h"

namespace stoker {

/// The data files of one checkpoint. Files stay open, as far as there are descriptors, so that the
/// checkpoint stays readable when retention removes it; the others are opened when they are read.
///
/// Thread safety: every method may be called from several threads at once.
class StepFiles final : public ChunkFiles, public StoredFiles {
 public:
  /// `step` is the directory of the checkpoint, `files` are those of its manifest.
  StepFiles(FileOps& ops, std::shared_ptr<const RootDirectory> step,
            const std::vector<CheckpointFile>& files, const File::Options& options);

  /// Opens every file once and keeps as many open as it may. `corrupt` if a file is missing, has
  /// another size or is not a regular file.
  Status open_all() override;

  Status read(std::span<const ChunkRead> reads, ChunkHandler& handler,
              const ChunkReadOptions& options) override {
    return read_chunks(*this, reads, handler, options);
  }

  /// Returns the open file. `corrupt` as above; `not_found` if the whole checkpoint was removed
  /// meanwhile.
  Result<std::shared_ptr<const File>> get(std::uint32_t index) override;

  std::string path_of(std::uint32_t index) const override;

 private:
  struct Named {
    std::string name;
    std::uint64_t size_bytes = 0;
    bool is_elsewhere = false;
  };

  Result<std::shared_ptr<const File>> open(const Named& named) const;
  bool let_go();

  FileOps& ops_;
  const std::shared_ptr<const RootDirectory> step_;
  const std::vector<Named> files_;
  const File::Options options_;
  Mutex mutex_;
  std::vector<std::shared_ptr<const File>> kept_ STOKER_GUARDED_BY(mutex_);
  std::size_t kept_count_ STOKER_GUARDED_BY(mutex_) = 0;
  std::size_t kept_max_ STOKER_GUARDED_BY(mutex_);
};

/// Opens the directory of one checkpoint. `corrupt` if `path` is not a directory.
Result<std::unique_ptr<OpenStep>> open_step_directory(FileOps& ops, const PathAt& path);

}  // namespace stoker
