#include "cli/loader/cursor_file.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>

#include "base/unique_fd.h"
#include "io/files/publish.h"
#include "io/files/regular_file.h"

namespace stoker::cli {
namespace {

constexpr std::size_t kBytesMax = 64 << 10;  // far above the size of any cursor

Result<std::string> read_text(int fd, const std::string& path) {
  std::string text(kBytesMax, '\0');
  std::size_t size = 0;
  while (size < text.size()) {
    const ssize_t n = ::read(fd, text.data() + size, text.size() - size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return Status::from_errno(errno, "read", path);
    if (n == 0) break;
    size += static_cast<std::size_t>(n);
  }
  text.resize(size);
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
  return text;
}

bool stdout_is_file() {
  struct stat info{};
  return ::fstat(STDOUT_FILENO, &info) == 0 && S_ISREG(info.st_mode);
}

}  // namespace

Result<std::optional<Cursor>> CursorFile::load() const {
  if (path_.empty()) return std::optional<Cursor>();
  const Result<UniqueFd> fd = open_regular(ops_, path_);
  if (!fd.ok() && fd.status().code() == Code::not_found) {
    std::error_code ignored;
    if (std::filesystem::is_directory(parent_of(path_), ignored)) return std::optional<Cursor>();
    return Status(Code::invalid_argument,
                  fmt::format("--cursor-file {}: there is no directory {}; create it first", path_,
                              parent_of(path_)));
  }
  if (!fd.ok()) return fd.status().with_context("--cursor-file");
  STOKER_ASSIGN(const std::string text, read_text(fd->get(), path_));
  const Result<Cursor> cursor = parse_cursor(text);
  if (cursor.ok()) return std::optional<Cursor>(*cursor);
  return Status(cursor.status().code(),
                fmt::format("--cursor-file {}: {}; remove the file to start over", path_,
                            cursor.status().message()));
}

Status CursorFile::received(const Cursor& cursor) {
  if (path_.empty()) return {};
  last_ = cursor;
  return ++pending_ < every_ ? Status() : keep_last();
}

Status CursorFile::keep_last() {
  if (pending_ == 0) return {};
  pending_ = 0;
  return keep(last_);
}

Status CursorFile::keep(const Cursor& cursor) {
  if (stdout_is_file()) {
    // A failed sync is never retried: the contents of the file are unknown afterwards.
    if (const Status synced = ops_.fdatasync(STDOUT_FILENO); !synced.ok())
      return synced.with_context("standard output");
  }
  const std::string text = format_cursor(cursor) + "\n";
  return publish_file(ops_, path_, std::as_bytes(std::span(text))).with_context("--cursor-file");
}

}  // namespace stoker::cli
