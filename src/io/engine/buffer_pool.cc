#include "io/engine/buffer_pool.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <list>
#include <optional>
#include <string>

#include "base/mutex.h"
#include "io/engine/arena.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define STOKER_POISON(span) ASAN_POISON_MEMORY_REGION((span).data(), (span).size())
#define STOKER_UNPOISON(span) ASAN_UNPOISON_MEMORY_REGION((span).data(), (span).size())
#else
#define STOKER_POISON(span) static_cast<void>(span)
#define STOKER_UNPOISON(span) static_cast<void>(span)
#endif

namespace stoker {
namespace {

constexpr std::size_t kBudgetUnitBytes = std::size_t{2} << 20;
constexpr std::byte kReturned{0xDB};  // the fill pattern of returned memory in debug builds

#if defined(NDEBUG)
void mark_returned(std::span<std::byte>) {}
void check_untouched(std::span<const std::byte>) {}
#else
void mark_returned(std::span<std::byte> bytes) {
  std::memset(bytes.data(), static_cast<int>(kReturned), bytes.size());
}
/// Fresh memory is zero and returned memory has the pattern; anything else was written after the
/// memory had been returned. Checks one byte of every cache line.
void check_untouched(std::span<const std::byte> bytes) {
  for (std::size_t at = 0; at < bytes.size(); at += 64) {
    if (bytes[at] == kReturned || bytes[at] == std::byte{0}) continue;
    std::fprintf(stderr, "stoker: a lease was written to after it had been given back\n");
    std::abort();
  }
}
#endif

}  // namespace

std::string_view arena_pages_name(ArenaPages pages) noexcept {
  switch (pages) {
    case ArenaPages::small: return "none";
    case ArenaPages::transparent_huge: return "transparent";
    case ArenaPages::hugetlb: return "hugetlb";
  }
  return "unknown";
}

/// The pool's state, shared by the pool and its leases.
class Lease::Arena {
 public:
  Arena(std::unique_ptr<stoker::Arena> memory, ArenaPages pages)
      : memory_(std::move(memory)),
        pages_(pages),
        free_(memory_->bytes().size(), BufferPool::kAlignBytes) {
    STOKER_POISON(memory_->bytes());
  }
  ~Arena() { STOKER_UNPOISON(memory_->bytes()); }

  std::span<std::byte> bytes() const noexcept { return memory_->bytes(); }
  ArenaPages pages() const noexcept { return pages_; }

  Result<std::span<std::byte>> take(std::size_t size, bool may_wait, const std::stop_token& stop,
                                    Deadline deadline) {
    Waiter self(size);
    std::list<Waiter*> place{&self};  // allocated here, not under the lock
    std::optional<std::stop_callback<WakeAll>> wake;
    if (stop.stop_possible()) wake.emplace(stop, WakeAll{*this, self});
    MutexLock lock(mutex_);
    if (waiters_.empty()) self.offset = free_.take(size);
    if (self.offset == FreeExtents::kNone && !may_wait)
      return Status(Code::unavailable, "the buffer pool is empty");
    if (self.offset == FreeExtents::kNone) {
      waiters_.splice(waiters_.end(), place);
      while (self.offset == FreeExtents::kNone && !stop.stop_requested()) {
        if (!self.served.wait_until(mutex_, deadline)) break;
      }
      if (self.offset == FreeExtents::kNone) {
        waiters_.remove(&self);
        serve_waiters();  // later requests may fit where this one did not
        if (stop.stop_requested())
          return Status(Code::cancelled, "stopped while waiting for a buffer");
        return Status(Code::unavailable, "no buffer became free before the deadline: " +
                                             std::to_string(leased_) + " bytes are leased");
      }
    } else {
      leased_ += size;
    }
    return bytes().subspan(self.offset, size);
  }

  void give_back(std::span<std::byte> returned) {
    mark_returned(returned);
    STOKER_POISON(returned);
    MutexLock lock(mutex_);
    leased_ -= returned.size();
    free_.give_back(static_cast<std::size_t>(returned.data() - bytes().data()), returned.size());
    serve_waiters();
  }

  std::size_t leased_bytes() {
    MutexLock lock(mutex_);
    return leased_;
  }
  std::size_t waiting_count() {
    MutexLock lock(mutex_);
    return waiters_.size();
  }

 private:
  struct Waiter {
    explicit Waiter(std::size_t wanted) : size(wanted) {}
    std::size_t size;
    std::size_t offset = FreeExtents::kNone;
    Condition served;
  };
  struct WakeAll {
    Arena& arena;
    Waiter& waiter;
    void operator()() const {
      {
        MutexLock lock(arena.mutex_);
      }  // otherwise the waiter could miss the wake-up between its test and its wait
      waiter.served.notify_all();
    }
  };

  /// Serves waiters in order until one does not fit.
  void serve_waiters() STOKER_REQUIRES(mutex_) {
    while (!waiters_.empty()) {
      Waiter& first = *waiters_.front();
      first.offset = free_.take(first.size);
      if (first.offset == FreeExtents::kNone) return;
      leased_ += first.size;
      waiters_.pop_front();
      first.served.notify_all();
    }
  }

  const std::unique_ptr<stoker::Arena> memory_;
  const ArenaPages pages_;
  Mutex mutex_;
  FreeExtents free_ STOKER_GUARDED_BY(mutex_);
  std::size_t leased_ STOKER_GUARDED_BY(mutex_) = 0;
  std::list<Waiter*> waiters_ STOKER_GUARDED_BY(mutex_);
};

Lease::~Lease() {
  if (arena_ && !bytes_.empty()) arena_->give_back(bytes_);
}

Result<BufferPool> BufferPool::make(const Options& options) {
  if (options.budget_bytes == 0)
    return Status(Code::invalid_argument, "a buffer pool needs a budget of at least one byte");
  const std::size_t units = (options.budget_bytes - 1) / kBudgetUnitBytes + 1;
  STOKER_ASSIGN(MappedArena memory,
                MappedArena::map(units * kBudgetUnitBytes, options.huge_pages, options.touch));
  const ArenaPages pages = memory.pages();
  return BufferPool(
      std::make_shared<Lease::Arena>(std::make_unique<MappedArena>(std::move(memory)), pages));
}

BufferPool BufferPool::make(std::unique_ptr<Arena> memory) {
  return BufferPool(std::make_shared<Lease::Arena>(std::move(memory), ArenaPages::small));
}

std::size_t BufferPool::size_class_bytes(std::size_t size_bytes) noexcept {
  const std::size_t pages = (std::max<std::size_t>(size_bytes, 1) - 1) / kAlignBytes + 1;
  if (pages <= 4) return pages * kAlignBytes;
  const std::size_t step = std::bit_floor(pages - 1) / 4;  // four classes per doubling
  return (pages + step - 1) / step * step * kAlignBytes;
}

Result<Lease> BufferPool::take(std::size_t size_bytes, bool may_wait, const std::stop_token& stop,
                               Deadline deadline) {
  if (size_bytes > budget_bytes())
    return Status(Code::invalid_argument,
                  "a buffer of " + std::to_string(size_bytes) + " bytes exceeds the pool's " +
                      std::to_string(budget_bytes()) + ": raise the memory budget");
  const std::size_t size = std::min(size_class_bytes(size_bytes), budget_bytes());
  STOKER_ASSIGN(const std::span<std::byte> bytes, arena_->take(size, may_wait, stop, deadline));
  STOKER_UNPOISON(bytes);
  check_untouched(bytes);
  return Lease(arena_, bytes);
}

Result<Lease> BufferPool::lease(std::size_t size_bytes, const std::stop_token& stop,
                                Deadline deadline) {
  return take(size_bytes, true, stop, deadline);
}

Result<Lease> BufferPool::try_lease(std::size_t size_bytes) {
  return take(size_bytes, false, {}, Deadline::max());
}

std::span<std::byte> BufferPool::memory() const noexcept {
  return arena_->bytes();
}
ArenaPages BufferPool::pages() const noexcept {
  return arena_->pages();
}
std::size_t BufferPool::leased_bytes() const {
  return arena_->leased_bytes();
}
std::size_t BufferPool::waiting_count() const {
  return arena_->waiting_count();
}

}  // namespace stoker
