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

/// The pages that back an arena. Reported because they matter for speed and cannot be enforced.
enum class ArenaPages : std::uint8_t { small, transparent_huge, hugetlb };

std::string_view arena_pages_name(ArenaPages pages) noexcept;

class Arena;

/// A buffer borrowed from a BufferPool; the destructor returns it. It keeps the pool's memory
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

  /// Returns the whole size class, which is at least as long as requested.
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

/// One arena of aligned memory, mapped and touched once, from which buffers are leased. Its size is
/// the budget: the pool never grows, and callers wait while it is empty. It returns no memory to
/// the system before its end, because fresh memory on virtual machines costs more than the disk.
///
/// Debug builds fill returned memory with a pattern and abort the program when a later lease finds
/// it changed; under AddressSanitizer the returned memory is poisoned.
///
/// Thread safety: every method may be called from any thread. In a forked child the memory is the
/// child's own copy; leases work there as plain memory.
class BufferPool {
 public:
  static constexpr std::size_t kAlignBytes = 4096;  ///< Of the address and length of every lease.

  struct Options {
    std::size_t budget_bytes = std::size_t{64} << 20;  ///< Rounded up to 2 MiB.
    bool huge_pages = true;
    bool touch = true;  ///< Fault in every page now, so that transfers need not.
  };

  static Result<BufferPool> make(const Options& options);
  /// A pool of the given memory, which is freed after the last lease. Its pages() are not known:
  /// `small`.
  static BufferPool make(std::unique_ptr<Arena> memory);

  /// Waits for a free buffer. Requests are served in order: a small one does not overtake a large
  /// one. `invalid_argument` if the size exceeds the budget, `cancelled` if `stop` is requested,
  /// `unavailable` at the deadline.
  Result<Lease> lease(std::size_t size_bytes, const std::stop_token& stop = {},
                      Deadline deadline = Deadline::max());

  /// Like lease(), but returns `unavailable` instead of waiting.
  Result<Lease> try_lease(std::size_t size_bytes);

  /// Returns the bytes that a lease of `size_bytes` takes from the budget: whole pages up to 16
  /// KiB, above that four classes per doubling, which wastes at most a fifth and lets holes be
  /// reused.
  static std::size_t size_class_bytes(std::size_t size_bytes) noexcept;

  /// Returns the whole arena, for Engine::register_buffers().
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
