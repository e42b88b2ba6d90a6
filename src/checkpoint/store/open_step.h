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

/// The data files of a checkpoint, to be read.
///
/// Thread safety: every method may be called from any thread, also by several at once.
class StoredFiles {
 public:
  virtual ~StoredFiles() = default;

  /// Makes sure, as far as it can, that they stay readable when retention removes the checkpoint.
  /// `corrupt` if one is missing, of another size or no file.
  virtual Status open_all() = 0;

  /// Reads ranges, as read_chunks() does (io/chunk_reader.h). `not_found` if the whole checkpoint
  /// was removed meanwhile.
  virtual Status read(std::span<const ChunkRead> reads, ChunkHandler& handler,
                      const ChunkReadOptions& options) = 0;

  /// Of a file, for messages.
  virtual std::string path_of(std::uint32_t index) const = 0;
};

/// A checkpoint that is open: always the same one, whatever becomes of its name.
///
/// Thread safety: const methods may be called from any thread.
class OpenStep {
 public:
  virtual ~OpenStep() = default;

  /// For messages.
  virtual const std::string& path() const noexcept = 0;
  virtual Result<CheckpointManifest> read_manifest() const = 0;
  /// The names of all its files, the manifest's among them.
  virtual Result<std::vector<std::string>> list_files() const = 0;
  virtual Result<FileInfo> find_file(std::string_view name) const = 0;
  /// Those of the manifest, or some with other sizes. `options` are for local files.
  virtual std::shared_ptr<StoredFiles> files(const std::vector<CheckpointFile>& files,
                                             const File::Options& options) const = 0;
};

}  // namespace stoker
