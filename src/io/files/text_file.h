/// \file
/// Small files, whole: manifests, lock records, messages between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/files/file_ops.h"

namespace stoker {

/// Opens one to read it. `corrupt` for what is no file, but a FIFO, a directory, or below a root a
/// symbolic link; never waits.
Result<UniqueFd> open_text_file(FileOps& ops, const PathAt& path);

/// The whole file; `corrupt` if it is longer than `size_max_bytes`.
Result<std::string> read_text_file(FileOps& ops, const PathAt& path, std::size_t size_max_bytes);
/// Of an open file; `path` is for messages.
Result<std::string> read_text_file(int fd, const std::string& path, std::size_t size_max_bytes);

/// Writes all of `text` at the start of an open file.
Status write_text(FileOps& ops, int fd, std::string_view text);

/// Creates the file, which must not exist, and fsyncs it. Its name is durable once its directory
/// is. With `is_final` it is made read-only first.
Status create_durable_file(FileOps& ops, const PathAt& path, std::string_view text, bool is_final);

/// Makes the file visible at once and whole, but not durable: for messages, which a crash ends
/// together with those who would have read them. `unique`: a word that no other writer of messages
/// has at this time; it names the staged file.
Status publish_message(FileOps& ops, const PathAt& path, std::string_view text,
                       std::string_view unique);

}  // namespace stoker
