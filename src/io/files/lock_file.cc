#include "io/files/lock_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace stoker {

Result<UniqueFd> open_lock_file(FileOps& ops, const PathAt& path) {
  constexpr int kFlags = O_RDWR | O_NOFOLLOW;
  Result<UniqueFd> fd = ops.open(path, kFlags | O_NONBLOCK);
  if (fd.status().code() == Code::not_found) {
    fd = ops.open(path, kFlags | O_CREAT | O_EXCL);
    if (fd.status().code() == Code::already_exists) fd = ops.open(path, kFlags | O_NONBLOCK);
  }
  struct stat info{};
  const bool is_other = fd.ok() ? ::fstat(fd->get(), &info) == 0 && !S_ISREG(info.st_mode)
                                : fd.status().code() == Code::invalid_argument ||
                                      fd.status().os_error() == ENXIO;  // a socket
  if (!is_other) return fd;
  return Status(Code::invalid_argument,
                path.text() + ": not a regular file, so it cannot be a lock; remove it");
}

}  // namespace stoker
