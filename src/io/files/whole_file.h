#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// A buffer that is reused for one file after another: page-aligned, as direct reads require, and
/// not cleared. It is kept because allocating fresh memory costs more than filling it.
///
/// Thread safety: none.
class FileMemory {
 public:
  /// Returns at least `size_bytes` of uninitialized memory. Invalidates the result of earlier
  /// calls.
  std::span<std::byte> get(std::size_t size_bytes);
  std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_bytes_ = 0;
};

/// Reads whole files of known size, one at a time for each thread: from the page cache if most of
/// the file is cached, otherwise with direct I/O where that is faster. Direct I/O saves allocating
/// and copying pages, and does not evict other files from the cache.
///
/// Thread safety: const methods from any thread, each with its own FileMemory.
class WholeFileReader {
 public:
  /// For files below `directory`.
  explicit WholeFileReader(const std::string& directory);

  /// Returns all bytes of a file that is expected to have `size_bytes`; the result is a part of
  /// `memory`. A shorter file gives fewer bytes, and a longer one `size_bytes` + 1.
  Result<std::span<std::byte>> read(const std::string& path, std::uint64_t size_bytes,
                                    FileMemory& memory) const;

 private:
  bool direct_pays_ = false;
};

}  // namespace stoker
