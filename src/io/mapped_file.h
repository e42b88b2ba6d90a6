#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/unique_fd.h"
#include "io/files/path_at.h"
#include "stoker/status.h"

namespace stoker {

/// The expected access pattern, for madvise(2).
enum class MapAdvice : std::uint8_t { normal, sequential, random };

/// A whole file mapped for reading.
///
/// The file must not be truncated while it is mapped: reading past the new end raises SIGBUS, and
/// no check of the size prevents that (docs/durability.md). Stoker therefore maps files that it
/// published by rename and never changes; a program that maps other files must know that they are
/// not truncated.
///
/// Thread safety: immutable; the bytes may be read from any thread.
class MappedFile {
 public:
  static Result<MappedFile> open(const PathAt& path, MapAdvice advice = MapAdvice::normal);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const noexcept { return bytes_; }

  /// Asks the kernel to start reading a range; does not wait.
  Status will_need(std::uint64_t offset_bytes, std::size_t size_bytes) const;

 private:
  MappedFile(UniqueFd fd, std::span<std::byte> bytes) : fd_(std::move(fd)), bytes_(bytes) {}

  UniqueFd fd_;
  std::span<std::byte> bytes_;
};

}  // namespace stoker
