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

/// A data file to be staged.
struct StagedFile {
  std::string name;
  std::uint64_t size_bytes = 0;
};

/// The files that one rank stages, and where.
struct StageRequest {
  std::string staging;  ///< From CheckpointWriter::staging_name().
  std::vector<StagedFile> files;
  /// Writes local files; borrowed, it outlives the part. Stores without local files ignore it.
  Engine& engine;
  File::Options file = {};  ///< For local files.
};

/// A chunk of a file to be written. The chunks of a file come in ascending order and without gaps,
/// each of kCheckpointChunkBytes but the last. The memory is borrowed until its Completion is
/// reaped, and has room for padding to the device's alignment.
struct StagedWrite {
  std::uint32_t file = 0;  ///< Index into StageRequest::files.
  std::uint64_t offset_bytes = 0;
  std::size_t size_bytes = 0;
  std::span<std::byte> memory = {};
  std::uint64_t tag = 0;
};

/// A file of a committed checkpoint whose bytes a new checkpoint reuses.
struct ReuseSource {
  std::string step;  ///< Name of the checkpoint.
  std::string name;  ///< Name of the file in it.
  /// Whether a file is the committed one and was not written to since.
  std::function<bool(const FileInfo&)> is_as_committed;
};

/// One rank's part of a checkpoint that is being saved: data files and the part manifest. None of
/// it is visible to readers before CheckpointWriter::commit().
///
/// Order of calls: begin(); create() or reuse() for each file, before its first chunk (a file that
/// could not be reused is created when chunks of other files are already in flight); submit() and
/// reap() until every byte is written; all_written(); finish() for each created file; seal(). After
/// a failure only abandon() may be called.
///
/// Thread safety: none.
class StagedPart {
 public:
  virtual ~StagedPart() = default;

  /// Path of a file, for messages.
  virtual std::string path_of(std::uint32_t file) const = 0;

  /// Creates the staging area, unless another rank has done so. No two saves share a staging name.
  virtual Status begin() = 0;
  /// Creates a file and, where the store can, reserves space for its bytes.
  virtual Status create(std::uint32_t file) = 0;
  /// Shares the bytes of a file of another checkpoint, which then need not be written; they stay
  /// when that checkpoint is removed. Returns nothing if that is not possible.
  virtual Result<std::optional<FileInfo>> reuse(std::uint32_t file, const ReuseSource& source) = 0;

  /// Begins a write. Returns false if no more writes can be in flight: reap first.
  virtual Result<bool> submit(const StagedWrite& write) = 0;
  /// As RangeSource::reap().
  virtual Result<std::size_t> reap(std::span<Completion> out, std::size_t count_min,
                                   nanoseconds timeout) = 0;
  /// Returns the number of writes that still read their memory or have not been reaped.
  virtual std::size_t in_flight() const noexcept = 0;
  /// Called once every write has been reaped.
  virtual void all_written() = 0;

  /// Makes a file durable. The FileInfo returned tells later whether the file has changed; it is
  /// FileInfo() if it could not be determined.
  virtual Result<FileInfo> finish(std::uint32_t file) = 0;
  /// Stores the part manifest. Afterwards the whole part is durable.
  virtual Status seal(std::uint32_t rank, const std::string& part_manifest) = 0;

  /// Waits for the writes in flight until `deadline`, and reaps them. If in_flight() is not 0 then,
  /// the caller keeps this object, its engine and the memory of the writes, and calls abandon()
  /// again later.
  virtual void abandon(Deadline deadline) = 0;
};

}  // namespace stoker
