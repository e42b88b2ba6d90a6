#include "checkpoint/text_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

namespace stoker {

Result<std::string> read_text_file(FileOps& ops, const std::string& path,
                                   std::size_t size_max_bytes) {
  constexpr std::size_t kPieceBytes = std::size_t{256} << 10;
  STOKER_ASSIGN(const UniqueFd fd, ops.open(path, O_RDONLY));
  std::string text;
  for (;;) {
    const std::size_t had = text.size();
    text.resize(had + kPieceBytes);
    const ssize_t n = ::pread(fd.get(), text.data() + had, kPieceBytes, static_cast<off_t>(had));
    if (n < 0 && errno != EINTR) return Status::from_errno(errno, "read", path);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return text;
    if (text.size() > size_max_bytes)
      return Status(Code::corrupt,
                    path + ": longer than " + std::to_string(size_max_bytes) + " bytes");
  }
}

Status write_text(FileOps& ops, int fd, std::string_view text) {
  std::span<const std::byte> data = std::as_bytes(std::span(text));
  for (std::uint64_t offset = 0; !data.empty();) {
    const Result<std::size_t> written = ops.pwrite(fd, data, offset);
    if (!written.ok() && written.status().os_error() == EINTR) continue;  // nothing was moved
    if (!written.ok()) return written.status();
    if (*written == 0) return Status(Code::io_error, "pwrite wrote nothing");
    data = data.subspan(*written);
    offset += *written;
  }
  return {};
}

Status create_durable_file(FileOps& ops, const std::string& path, std::string_view text,
                           bool is_final) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_WRONLY | O_CREAT | O_EXCL));
  STOKER_TRY(write_text(ops, fd.get(), text).with_context(path));
  if (is_final) STOKER_TRY(ops.fchmod(fd.get(), 0444).with_context(path));
  STOKER_TRY(ops.fsync(fd.get()).with_context(path));
  return ops.close(std::move(fd)).with_context(path);
}

Status publish_message(FileOps& ops, const std::string& path, std::string_view text) {
  const std::string staged = path + ".staged";
  {
    STOKER_ASSIGN(UniqueFd fd, ops.open(staged, O_WRONLY | O_CREAT | O_TRUNC));
    STOKER_TRY(write_text(ops, fd.get(), text).with_context(path));
    STOKER_TRY(ops.close(std::move(fd)).with_context(path));
  }
  return ops.rename(staged, path);
}

}  // namespace stoker
