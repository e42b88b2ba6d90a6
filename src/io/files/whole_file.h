#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "stoker/status.h"

namespace stoker {

/// Memory for one file after the other: at a page boundary, as direct reads need it, not cleared
/// before use, and kept, because fresh memory costs more than filling it.
///
/// Thread safety: none.
class FileMemory {
 public:
  /// At least `size_bytes`, with anything in them. What an earlier call gave is gone.
  std::span<std::byte> get(std::size_t size_bytes);
  std::size_t capacity_bytes() const noexcept { return capacity_bytes_; }

 private:
  struct Free {
    void operator()(std::byte* memory) const noexcept;
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t capacity_bytes_ = 0;
};

/// Reads whole files whose sizes are known, one at a time for each thread: what the page cache has
/// from there, all else past it where that pays, which spares a small file's pages their making and
/// copying, and leaves in the cache what others have put there.
///
/// Thread safety: const, so from any thread.
class WholeFileReader {
 public:
  /// For the files below `directory`.
  explicit WholeFileReader(const std::string& directory);

  /// All bytes of a file that had `size_bytes` when somebody looked; they lie in `memory`. A file
  /// that has become shorter gives fewer bytes, a longer one gives one byte more than asked for.
  Result<std::span<std::byte>> read(const std::string& path, std::uint64_t size_bytes,
                                    FileMemory& memory) const;

 private:
  bool direct_pays_ = false;
};

}  // namespace stoker
