#include "io/files/text_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <optional>
#include <span>
#include <utility>

#include "io/files/exact_transfer.h"
#include "io/files/regular_file.h"

namespace stoker {
namespace {

constexpr std::size_t kMoreBytes = std::size_t{16} << 10;

Status too_long(const std::string& path, std::size_t size_max_bytes) {
  return {Code::corrupt, path + ": longer than " + std::to_string(size_max_bytes) + " bytes"};
}

/// Returns the size of the first read: the whole file and one byte more, which reveals its end; or
/// a fixed piece if the size is not known. Returns nullopt if the file is too long: a sparse file
/// takes no room on disk, but its whole length in memory.
std::optional<std::size_t> first_read_bytes(int fd, std::size_t size_max_bytes) {
  constexpr std::size_t kPieceBytes = std::size_t{64} << 10;
  struct stat info{};
  if (::fstat(fd, &info) != 0 || info.st_size <= 0) return kPieceBytes;
  const auto size_bytes = static_cast<std::size_t>(info.st_size);
  if (size_bytes > size_max_bytes) return std::nullopt;
  return size_bytes + 1;
}

}  // namespace

Result<UniqueFd> open_text_file(FileOps& ops, const PathAt& path) {
  Result<UniqueFd> fd = open_regular(ops, path);
  if (fd.status().code() != Code::invalid_argument) return fd;
  return Status(Code::corrupt, std::string(fd.status().message()), fd.status().os_error());
}

Result<std::string> read_text_file(FileOps& ops, const PathAt& path, std::size_t size_max_bytes) {
  STOKER_ASSIGN(const UniqueFd fd, open_text_file(ops, path));
  return read_text_file(fd.get(), path.text(), size_max_bytes);
}

Result<std::string> read_text_file(int fd, const std::string& path, std::size_t size_max_bytes) {
  const std::optional<std::size_t> first_bytes = first_read_bytes(fd, size_max_bytes);
  if (!first_bytes) return too_long(path, size_max_bytes);
  std::size_t piece_bytes = *first_bytes;
  std::string text;
  for (;;) {
    const std::size_t had = text.size();
    text.resize(had + piece_bytes);
    const ssize_t n = ::pread(fd, text.data() + had, piece_bytes, static_cast<off_t>(had));
    if (n < 0 && errno != EINTR) return Status::from_errno(errno, "read", path);
    text.resize(had + static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
    if (n == 0) return text;
    piece_bytes = std::min(piece_bytes, kMoreBytes);  // usually nothing is left
    if (text.size() > size_max_bytes) return too_long(path, size_max_bytes);
  }
}

Status write_text(FileOps& ops, int fd, std::string_view text) {
  return write_exactly(ops, fd, 0, std::as_bytes(std::span(text)));
}

Status create_durable_file(FileOps& ops, const PathAt& path, std::string_view text, bool is_final) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_WRONLY | O_CREAT | O_EXCL));
  STOKER_TRY(write_text(ops, fd.get(), text).with_context(path.text()));
  if (is_final) STOKER_TRY(ops.fchmod(fd.get(), 0444).with_context(path.text()));
  STOKER_TRY(ops.fsync(fd.get()).with_context(path.text()));
  return ops.close(std::move(fd)).with_context(path.text());
}

Status publish_message(FileOps& ops, const PathAt& path, std::string_view text,
                       std::string_view unique) {
  const PathAt staged = path.parent() / ("staged-" + std::string(unique));
  static_cast<void>(
      ops.unlink(staged));  // left by a failed attempt: only this writer uses the name
  {
    STOKER_ASSIGN(UniqueFd fd, ops.open(staged, O_WRONLY | O_CREAT | O_EXCL));
    STOKER_TRY(write_text(ops, fd.get(), text).with_context(path.text()));
    STOKER_TRY(ops.close(std::move(fd)).with_context(path.text()));
  }
  return ops.rename(staged, path);
}

}  // namespace stoker
