#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "io/files/file_ops.h"
#include "stoker/cursor.h"

namespace stoker::cli {

/// Stores the position of a stream in a file that outlives the process.
///
/// Protocol, after every `every` batches and at the end:
///   1. The keys of these batches are on stdout.
///   2. If stdout is a regular file, it is synced.
///   3. The cursor replaces the file atomically and durably (publish_file).
/// So the file never counts a sample whose key is missing. A process that dies between 1 and 3
/// leaves more keys than the file counts: the resumed stream prints these again, and says how many
/// keys come before them.
///
/// Thread safety: none.
class CursorFile {
 public:
  /// An empty path: nothing is stored.
  CursorFile(FileOps& ops, std::string path, std::uint64_t every)
      : ops_(ops), path_(std::move(path)), every_(every) {}

  const std::string& path() const noexcept { return path_; }

  /// Reads the cursor; nothing if the file does not exist. `corrupt`, with what to do, if it is not
  /// a cursor; `invalid_argument` if its directory does not exist.
  Result<std::optional<Cursor>> load() const;

  /// Called after a batch was received and its keys are on stdout: stores `cursor` every `every`
  /// batches.
  Status received(const Cursor& cursor);
  /// Stores the last cursor of received() if it is not stored yet.
  Status keep_last();

 private:
  Status keep(const Cursor& cursor);

  FileOps& ops_;
  std::string path_;
  std::uint64_t every_;
  std::uint64_t pending_ = 0;  // batches since the last write
  Cursor last_;
};

}  // namespace stoker::cli
