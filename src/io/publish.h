#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "io/file_ops.h"

namespace stoker {

/// Replaces `path` with `data`, atomically and durably. Crash points: publish_file.staged, .synced,
/// .switched, .durable.
///
/// On failure `path` holds the old bytes, or the new ones if only the last step failed; nothing is
/// left beside it unless the disk refuses the clean-up too.
Status publish_file(FileOps& ops, const std::string& path, std::span<const std::byte> data);

/// Gives the finished directory `staged` its final name, atomically and durably: every file and
/// directory in it is fsynced, then it is renamed without replacing anything, then the parent is
/// fsynced. Crash points: publish_directory.synced, .renamed, .durable.
///
/// Both names must be on one filesystem. `already_exists` if `path` is taken. On failure `staged`
/// is where it was, or at `path` if only the last step failed. Symbolic links inside are kept and
/// not followed.
Status publish_directory(FileOps& ops, const std::string& staged, const std::string& path);

/// The directory that holds `path`'s name; "." for a bare name.
std::string parent_of(const std::string& path);

}  // namespace stoker
