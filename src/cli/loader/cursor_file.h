#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "dataset/order/cursor.h"
#include "io/files/file_ops.h"

namespace stoker::cli {

/// Where a stream stands, in a file that outlives it.
///
/// Protocol, after every `every` batches and at the end:
///   1. The keys of these batches were written to stdout.
///   2. If stdout is a regular file, it is synced.
///   3. The cursor replaces the file, whole and durably (publish_file).
/// So the file never counts a sample whose key is not there. A process that dies between 1 and 3
/// leaves more keys than the file counts: the stream that goes on prints these again, and says how
/// many keys come before them.
///
/// Thread safety: none.
class CursorFile {
 public:
  /// An empty path: nothing is kept.
  CursorFile(FileOps& ops, std::string path, std::uint64_t every)
      : ops_(ops), path_(std::move(path)), every_(every) {}

  const std::string& path() const noexcept { return path_; }

  /// What the file says; nothing if there is none. `corrupt` if it is no cursor, with the cure;
  /// `invalid_argument` if it could not be written later.
  Result<std::optional<Cursor>> load() const;

  /// A batch was received and its keys are on stdout: keeps `cursor`, if it is time.
  Status received(const Cursor& cursor);
  /// Keeps what received() has not kept yet.
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
