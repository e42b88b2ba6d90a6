#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "stoker/status.h"

namespace stoker {

/// What backs an arena. Reported, because it is worth a factor and cannot be demanded.
enum class ArenaPages : std::uint8_t { small, transparent_huge, hugetlb };

std::string_view arena_pages_name(ArenaPages pages) noexcept;

/// A buffer borrowed from a BufferPool, given back by the destructor. It keeps the pool's memory
/// alive, so it may outlive the BufferPool object.
///
/// Thread safety: none; it may be moved to and destroyed on any thread.
class Lease {
 public:
  Lease() noexcept = default;
  Lease(Lease&& other) noexcept
      : arena_(std::move(other.arena_)), bytes_(std::exchange(other.bytes_, {})) {}
  Lease& operator=(Lease other) noexcept {
    std::swap(arena_, other.arena_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~Lease();

  /// At least as long as asked for: the whole size class.
  std::span<std::byte> bytes() const noexcept { return bytes_; }
  explicit operator bool() const noexcept { return !bytes_.empty(); }

 private:
  friend class BufferPool;
  class Arena;
  Lease(std::shared_ptr<Arena> arena, std::span<std::byte> bytes)
      : arena_(std::move(arena)), bytes_(bytes) {}

  std::shared_ptr<Arena> arena_;
  std::span<std::byte> bytes_;
};

/// One arena of aligned memory, mapped and touched once, then lent out piece by piece. Its size is
/// the budget: an empty pool makes callers wait, it never grows. On virtual machines fresh memory
/// costs more than the disk, which is why nothing here goes back to the system before the end.
///
/// Debug builds fill returned memory with a pattern and stop the program when a later lease finds
/// it changed; under AddressSanitizer the returned memory is poisoned.
///
/// Thread safety: every method may be called from any thread. In a forked child the memory is the
/// child's own copy; leases work there as plain memory.
class BufferPool {
 public:
  static constexpr std::size_t kAlignBytes = 4096;  ///< Of every lease, address and length.

  struct Options {
    std::size_t budget_bytes = std::size_t{64} << 20;  ///< Rounded up to 2 MiB.
    bool huge_pages = true;
    bool touch = true;  ///< Fault every page in now, so that no transfer pays for it later.
  };

  static Result<BufferPool> make(const Options& options);

  /// Waits until the pool can serve it, behind everybody who asked before: a small request does not
  /// overtake a large one. `invalid_argument` if it exceeds the budget, `cancelled` if `stop`
  /// fires, `unavailable` at the deadline.
  Result<Lease> lease(std::size_t size_bytes, const std::stop_token& stop = {},
                      Deadline deadline = Deadline::max());

  /// As lease(), but answers `unavailable` instead of waiting.
  Result<Lease> try_lease(std::size_t size_bytes);

  /// What a lease of `size_bytes` takes from the budget: four classes to each doubling, so at most
  /// a fifth is lost and holes are reused.
  static std::size_t size_class_bytes(std::size_t size_bytes) noexcept;

  /// All of the arena, for Engine::register_buffers.
  std::span<std::byte> memory() const noexcept;
  ArenaPages pages() const noexcept;
  std::size_t budget_bytes() const noexcept { return memory().size(); }
  std::size_t leased_bytes() const;
  std::size_t waiting_count() const;

 private:
  explicit BufferPool(std::shared_ptr<Lease::Arena> arena) : arena_(std::move(arena)) {}
  Result<Lease> take(std::size_t size_bytes, bool may_wait, const std::stop_token& stop,
                     Deadline deadline);

  std::shared_ptr<Lease::Arena> arena_;
};

}  // namespace stoker
