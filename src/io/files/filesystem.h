#pragma once

#include <cstdint>
#include <string>

#include "stoker/status.h"

namespace stoker {

/// The kind of a filesystem, by the magic number that statfs(2) reports.
struct FilesystemKind {
  std::string name;  ///< Such as "ext4" or "xfs"; "unknown (0x1234)" if not known.
  std::uint64_t magic = 0;
  bool local_block = false;  ///< On a block device of this machine: O_DIRECT is the fast path.
};

/// Returns the kind for a magic number. ext2, ext3 and ext4 share one and are all called ext4.
FilesystemKind filesystem_by_magic(std::uint64_t magic);

Result<FilesystemKind> filesystem_of(int fd);

/// Returns the free bytes that are available to unprivileged users.
Result<std::uint64_t> free_bytes_of(const std::string& path);

}  // namespace stoker
