#include "io/files/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>

namespace stoker {

Result<UniqueFd> open_regular(FileOps& ops, const PathAt& path) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDONLY | O_NONBLOCK));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "fstat", path.text());
  if (S_ISDIR(info.st_mode)) return Status::from_errno(EISDIR, "open", path.text());
  if (!S_ISREG(info.st_mode))
    return Status(Code::invalid_argument, "open " + path.text() + ": not a regular file");
  // io_uring honors O_NONBLOCK even for regular files: if a filesystem cannot guarantee not to
  // block, a read would fail with EAGAIN.
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK) != 0)
    return Status::from_errno(errno, "fcntl", path.text());
  return fd;
}

}  // namespace stoker
