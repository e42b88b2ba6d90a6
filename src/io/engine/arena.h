#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "io/engine/buffer_pool.h"

namespace stoker {

/// A block of memory, mapped or pinned for a device. The destructor frees it.
///
/// Thread safety: immutable.
class Arena {
 public:
  virtual ~Arena() = default;
  virtual std::span<std::byte> bytes() const noexcept = 0;
};

/// Allocates an arena of at least `size_bytes`, aligned to 4096, with all pages faulted in.
using ArenaMaker = std::function<Result<std::unique_ptr<Arena>>(std::size_t size_bytes)>;

/// Asks the kernel for huge pages in new memory that is about to be filled: with small ones, the
/// first touch takes several times as long as what is written. Does nothing if the kernel has none,
/// or for memory that is too small to contain one.
void advise_huge_pages(std::span<std::byte> bytes) noexcept;

/// Anonymous memory from mmap(2), on huge pages if the kernel grants them.
///
/// Thread safety: immutable after map(). The destructor unmaps.
class MappedArena final : public Arena {
 public:
  static Result<MappedArena> map(std::size_t size_bytes, bool huge_pages, bool touch);
  MappedArena(MappedArena&& other) noexcept
      : bytes_(std::exchange(other.bytes_, {})), pages_(other.pages_) {}
  MappedArena& operator=(MappedArena&&) = delete;
  ~MappedArena() override;

  std::span<std::byte> bytes() const noexcept override { return bytes_; }
  ArenaPages pages() const noexcept { return pages_; }

 private:
  MappedArena(std::span<std::byte> bytes, ArenaPages pages) : bytes_(bytes), pages_(pages) {}
  std::span<std::byte> bytes_;
  ArenaPages pages_;
};

/// The free parts of [0, size): best fit, with adjacent parts merged. Allocates nothing after
/// construction if every size taken is a multiple of `unit_bytes`.
///
/// Thread safety: none.
class FreeExtents {
 public:
  static constexpr std::size_t kNone = ~std::size_t{0};

  FreeExtents(std::size_t size_bytes, std::size_t unit_bytes);

  /// Takes `size_bytes` and returns their offset; kNone if no hole is large enough.
  std::size_t take(std::size_t size_bytes);
  void give_back(std::size_t offset_bytes, std::size_t size_bytes);

 private:
  struct Extent {
    std::size_t offset;
    std::size_t size;
  };
  std::vector<Extent> extents_;  // by offset
};

}  // namespace stoker
