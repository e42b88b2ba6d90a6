/// \file
/// Reads and writes small files as a whole: manifests, lock records, messages between ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "io/files/file_ops.h"

namespace stoker {

/// Opens a text file for reading. `corrupt` if it is not a regular file but a FIFO, a directory or,
/// below a root, a symbolic link. Never waits.
Result<UniqueFd> open_text_file(FileOps& ops, const PathAt& path);

/// Returns the whole file; `corrupt` if it is longer than `size_max_bytes`.
Result<std::string> read_text_file(FileOps& ops, const PathAt& path, std::size_t size_max_bytes);
/// Reads an open file; `path` is for messages.
Result<std::string> read_text_file(int fd, const std::string& path, std::size_t size_max_bytes);

/// Writes all of `text` at the start of an open file.
Status write_text(FileOps& ops, int fd, std::string_view text);

/// Creates the file, which must not exist, and fsyncs it. Its name becomes durable when its
/// directory is fsynced. With `is_final` the file is made read-only first.
Status create_durable_file(FileOps& ops, const PathAt& path, std::string_view text, bool is_final);

/// Publishes the file atomically, but not durably. For messages, whose readers do not survive a
/// crash either. `unique` names the staged file: a word that no other writer uses at this time.
Status publish_message(FileOps& ops, const PathAt& path, std::string_view text,
                       std::string_view unique);

}  // namespace stoker
