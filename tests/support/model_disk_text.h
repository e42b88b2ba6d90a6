#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "io/files/file_ops.h"

namespace stoker::testing {

inline std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// A file's bytes through FileOps, which may be no file of this machine; none if it is not there.
inline std::optional<std::string> text_of(FileOps& ops, const std::string& path) {
  const Result<UniqueFd> fd = ops.open(path, O_RDONLY);
  struct stat info{};
  if (!fd.ok() || ::fstat(fd->get(), &info) != 0) return std::nullopt;
  std::string text(static_cast<std::size_t>(info.st_size), '\0');
  if (::pread(fd->get(), text.data(), text.size(), 0) != info.st_size) return std::nullopt;
  return text;
}

/// Makes a file, or opens the one that is there, and writes; nothing is synced.
inline Status write_text(FileOps& ops, const std::string& path, std::string_view text,
                         std::uint64_t offset_bytes = 0) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDWR | O_CREAT));
  STOKER_ASSIGN(const std::size_t moved, ops.pwrite(fd.get(), bytes_of(text), offset_bytes));
  if (moved != text.size()) return Status(Code::io_error, "a short write");
  return ops.close(std::move(fd));
}

inline Status sync_file(FileOps& ops, const std::string& path) {
  STOKER_ASSIGN(const UniqueFd fd, ops.open(path, O_RDWR));
  return ops.fsync(fd.get());
}

}  // namespace stoker::testing
