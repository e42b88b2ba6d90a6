#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "io/engine/engine.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// A data file that is to be staged.
struct StagedFile {
  std::string name;
  std::uint64_t size_bytes = 0;
};

/// What one rank stages, and where.
struct StageRequest {
  std::string staging;  ///< From CheckpointWriter::staging_name().
  std::vector<StagedFile> files;
  /// Writes local files; borrowed. Other stores have their own ways.
  Engine& engine;
  File::Options file = {};  ///< Of local files.
};

/// A chunk of a file on its way. The memory is borrowed until its Completion is reaped, and long
/// enough for padding to the device's alignment.
struct StagedWrite {
  std::uint32_t file = 0;  ///< Index into StageRequest::files.
  std::uint64_t offset_bytes = 0;
  std::size_t size_bytes = 0;
  std::span<std::byte> memory = {};
  std::uint64_t tag = 0;
};

/// A file of a committed checkpoint whose bytes are wanted once more.
struct ReuseSource {
  std::string step;  ///< Name of the checkpoint.
  std::string name;  ///< Of the file in it.
  /// Whether a file is the one that was committed, and nobody has written to it since.
  std::function<bool(const FileInfo&)> is_as_committed;
};

/// One rank's part of a checkpoint that is being saved: data files and the part manifest. Nobody
/// sees any of it before CheckpointWriter::commit().
///
/// The order of calls: begin(); create(), or reuse(), of each file; submit() and reap() until every
/// byte is written; all_written(); finish() of each file that was created; seal(). After a failure
/// only abandon() is called.
///
/// Thread safety: none.
class StagedPart {
 public:
  virtual ~StagedPart() = default;

  /// For messages.
  virtual std::string path_of(std::uint32_t file) const = 0;

  /// Another rank may have been first; a name is never used by two attempts.
  virtual Status begin() = 0;
  /// Makes a file, with room for its bytes where the store can reserve it.
  virtual Status create(std::uint32_t file) = 0;
  /// Uses the bytes of another checkpoint for a file, which then need not be written: they stay
  /// when that checkpoint goes. Nothing if that is not possible.
  virtual Result<std::optional<FileInfo>> reuse(std::uint32_t file, const ReuseSource& source) = 0;

  /// Begins a write. False if as many are on their way as can be: reap first.
  virtual Result<bool> submit(const StagedWrite& write) = 0;
  /// As RangeSource::reap().
  virtual Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                                   nanoseconds timeout) = 0;
  virtual std::size_t in_flight() const noexcept = 0;
  /// Every write has been reaped.
  virtual void all_written() = 0;

  /// Makes a file durable. What is returned tells later whether it is as it was; it says nothing
  /// (FileInfo()) where that could not be found out.
  virtual Result<FileInfo> finish(std::uint32_t file) = 0;
  /// Stores the part manifest. All of the part is durable then.
  virtual Status seal(std::uint32_t rank, const std::string& part_manifest) = 0;

  /// Waits for the writes on their way, until `deadline`. If some have not ended by then, this
  /// object must be kept until they have: it keeps what they write to.
  virtual void abandon(Deadline deadline) = 0;
};

}  // namespace stoker
