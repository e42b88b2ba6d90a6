#include "checkpoint/staging/staging_memory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "checkpoint/manifest/manifest.h"

namespace stoker {
namespace {

constexpr std::size_t kRingChunksMin = 2;   // one is filled while the other is written
constexpr std::size_t kRingChunksMax = 64;  // more memory would bring nothing
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

Result<std::unique_ptr<Arena>> map_arena(std::size_t size_bytes) {
  STOKER_ASSIGN(MappedArena arena,
                MappedArena::map(size_bytes, size_bytes >= kHugePageBytes, /*touch=*/true));
  return std::unique_ptr<Arena>(std::make_unique<MappedArena>(std::move(arena)));
}

}  // namespace

StagingMemory::StagingMemory(std::optional<std::uint64_t> budget_bytes, ArenaMaker make)
    : budget_(budget_bytes), make_(make ? std::move(make) : map_arena) {}

std::size_t StagingMemory::grant_bytes(std::uint64_t save_bytes) const noexcept {
  if (!budget_ || save_bytes <= *budget_) return static_cast<std::size_t>(save_bytes);
  const std::uint64_t chunks = *budget_ / kCheckpointChunkBytes;
  return static_cast<std::size_t>(
      std::clamp<std::uint64_t>(chunks, kRingChunksMin, kRingChunksMax) * kCheckpointChunkBytes);
}

bool StagingMemory::fits(std::size_t size_bytes) const {
  // Free arenas do not count: take() unmaps them if none is large enough.
  return !budget_ || lent_bytes_ == aside_bytes_ || lent_bytes_ + size_bytes <= *budget_;
}

bool StagingMemory::is_short_of(std::size_t size_bytes) const {
  MutexLock lock(mutex_);
  return !fits(size_bytes);
}

Result<std::unique_ptr<Arena>> StagingMemory::take(std::size_t size_bytes, Deadline deadline) {
  std::vector<std::unique_ptr<Arena>> unmapped;  // destroyed after the lock is released
  {
    MutexLock lock(mutex_);
    while (!fits(size_bytes)) {
      if (!returned_.wait_until(mutex_, deadline))
        return Status(Code::unavailable, "no staging memory was free before the deadline");
    }
    auto best = free_.end();
    for (auto it = free_.begin(); it != free_.end(); ++it) {
      const std::size_t size = (*it)->bytes().size();
      const bool is_affordable = fits(size);
      if (size >= size_bytes && is_affordable &&
          (best == free_.end() || size < (*best)->bytes().size()))
        best = it;
    }
    if (best != free_.end()) {
      std::unique_ptr<Arena> arena = std::move(*best);
      free_.erase(best);
      lent_bytes_ += arena->bytes().size();
      return arena;
    }
    lent_bytes_ += size_bytes;
    unmapped.swap(free_);  // none fits: the next save will be as large as this one
  }
  unmapped.clear();
  Result<std::unique_ptr<Arena>> made = make_(size_bytes);
  {
    MutexLock lock(mutex_);
    lent_bytes_ -= size_bytes;
    if (made.ok()) lent_bytes_ += (*made)->bytes().size();  // may be more than size_bytes
  }
  if (!made.ok()) returned_.notify_all();
  return made;
}

void StagingMemory::give_back(std::unique_ptr<Arena> arena) {
  if (arena == nullptr) return;
  {
    MutexLock lock(mutex_);
    lent_bytes_ -= arena->bytes().size();
    free_.push_back(std::move(arena));
  }
  returned_.notify_all();
}

void StagingMemory::set_aside(const Arena& arena) {
  {
    MutexLock lock(mutex_);
    aside_bytes_ += arena.bytes().size();
  }
  returned_.notify_all();
}

void StagingMemory::give_back_late(std::unique_ptr<Arena> arena) {
  {
    MutexLock lock(mutex_);
    aside_bytes_ -= arena->bytes().size();
  }
  give_back(std::move(arena));
}

}  // namespace stoker
