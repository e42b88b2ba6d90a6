#pragma once

#include <cstdint>
#include <string>

#include "stoker/status.h"

namespace stoker {

/// What kind of filesystem a path is on, by the magic number statfs(2) gives.
struct FilesystemKind {
  std::string name;  ///< "ext4", "xfs"; "unknown (0x1234)" otherwise.
  std::uint64_t magic = 0;
  bool local_block = false;  ///< On a block device of this machine: O_DIRECT is the fast path.
};

/// The table's row for a magic number. ext2, ext3 and ext4 share one and are called ext4.
FilesystemKind filesystem_by_magic(std::uint64_t magic);

Result<FilesystemKind> filesystem_of(int fd);

/// Bytes an ordinary user can still write there.
Result<std::uint64_t> free_bytes_of(const std::string& path);

}  // namespace stoker
