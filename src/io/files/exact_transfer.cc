#include "io/files/exact_transfer.h"

#include <unistd.h>

#include <cerrno>
#include <string>

namespace stoker {

Status read_exactly(int fd, std::uint64_t offset_bytes, std::span<std::byte> out,
                    std::string_view path) {
  while (!out.empty()) {
    const ssize_t n = ::pread(fd, out.data(), out.size(), static_cast<off_t>(offset_bytes));
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::from_errno(errno, "read", path);
    if (n == 0)
      return Status(Code::corrupt, std::string(path) + ", offset " + std::to_string(offset_bytes) +
                                       ": the file ends here, but more bytes were expected");
    out = out.subspan(static_cast<std::size_t>(n));
    offset_bytes += static_cast<std::uint64_t>(n);
  }
  return {};
}

Status write_exactly(FileOps& ops, int fd, std::uint64_t offset_bytes,
                     std::span<const std::byte> data) {
  while (!data.empty()) {
    const Result<std::size_t> written = ops.pwrite(fd, data, offset_bytes);
    if (!written.ok() && written.status().os_error() == EINTR) continue;  // nothing was written
    if (!written.ok()) return written.status();
    if (*written == 0) return Status(Code::io_error, "pwrite wrote nothing");
    data = data.subspan(*written);
    offset_bytes += *written;
  }
  return {};
}

}  // namespace stoker
