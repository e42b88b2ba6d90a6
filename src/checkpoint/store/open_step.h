#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/manifest/manifest.h"
#include "io/chunk_reader.h"
#include "io/files/file.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// The data files of a checkpoint, for reading.
///
/// Thread safety: every method may be called from several threads at once.
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;

  /// Opens all files, except those that are elsewhere, so that they stay readable, if possible,
  /// when retention removes the checkpoint. `corrupt` if a file is missing, has another size or is
  /// not a regular file.
  virtual Status open_all() = 0;

  /// Reads ranges as read_chunks() does (io/chunk_reader.h). `not_found` if the whole checkpoint
  /// was removed meanwhile.
  virtual Status read(std::span<const ChunkRead> reads, ChunkHandler& handler,
                      const ChunkReadOptions& options) = 0;

  /// Path of a file, for messages.
  virtual std::string path_of(std::uint32_t index) const = 0;
};

/// An open checkpoint. It stays the same one even if its name is removed or given to another.
///
/// Thread safety: const methods may be called from any thread.
class OpenStep {
 public:
  virtual ~OpenStep() = default;

  /// Path of the checkpoint, for messages.
  virtual const std::string& path() const noexcept = 0;
  virtual Result<CheckpointManifest> read_manifest() const = 0;
  /// Returns the names of all its files, including the manifest.
  virtual Result<std::vector<std::string>> list_files() const = 0;
  virtual Result<FileInfo> find_file(std::string_view name) const = 0;
  /// Returns a reader of `files`: those of the manifest, or others with their expected sizes.
  /// `options` applies to local files.
  virtual std::shared_ptr<StoredFiles> files(const std::vector<CheckpointFile>& files,
                                             const File::Options& options) const = 0;
};

}  // namespace stoker
