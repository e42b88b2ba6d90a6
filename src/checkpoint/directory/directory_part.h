#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/store/staged_part.h"
#include "io/files/file.h"

namespace stoker {

/// A part that is staged as files in the owner's directory. It takes steps 1 to 7 of the commit
/// (docs/durability.md).
///
/// Thread safety: none.
class DirectoryPart final : public StagedPart {
 public:
  DirectoryPart(CheckpointDirectory directory, StageRequest request);

  std::string path_of(std::uint32_t file) const override { return place_of(file).text(); }
  /// Crash point: checkpoint.staged_dir.
  Status begin() override;
  /// Crash point: checkpoint.preallocated.
  Status create(std::uint32_t file) override;
  /// A hard link.
  Result<std::optional<FileInfo>> reuse(std::uint32_t file, const ReuseSource& source) override;
  Result<bool> submit(const StagedWrite& write) override;
  Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                           nanoseconds timeout) override;
  std::size_t in_flight() const noexcept override { return request_.engine.in_flight(); }
  /// Crash point: checkpoint.written.
  void all_written() override;
  /// Crash points: file.truncated, checkpoint.synced.
  Result<FileInfo> finish(std::uint32_t file) override;
  /// Crash points: checkpoint.part_written, .staging_synced.
  Status seal(std::uint32_t rank, const std::string& part_manifest) override;
  void abandon(Deadline deadline) override;

 private:
  PathAt place_of(std::uint32_t file) const { return place_ / request_.files[file].name; }

  const CheckpointDirectory directory_;
  const StageRequest request_;
  const PathAt place_;
  std::vector<std::optional<File>> files_;
};

}  // namespace stoker
