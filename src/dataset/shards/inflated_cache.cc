#include "dataset/shards/inflated_cache.h"

#include <utility>

namespace stoker {

InflatedCache::~InflatedCache() {
  Slots* slots = slots_.load(std::memory_order_acquire);
  // The parent's slots are not freed: their mutex may be held by a thread that does not exist here.
  if (slots != nullptr && slots->made_here.is_here()) delete slots;
}

InflatedCache::Slots& InflatedCache::here() {
  Slots* seen = slots_.load(std::memory_order_acquire);
  if (seen != nullptr && seen->made_here.is_here()) return *seen;
  auto mine = std::make_unique<Slots>();
  if (slots_.compare_exchange_strong(seen, mine.get(), std::memory_order_acq_rel,
                                     std::memory_order_acquire))
    return *mine.release();
  return *seen;  // another thread of this process was faster
}

InflatedCache::Bytes InflatedCache::find(std::size_t shard) {
  Slots& all = here();
  MutexLock lock(all.mutex);
  for (const Slot& slot : all.slots)
    if (slot.bytes && slot.shard == shard) return slot.bytes;
  return nullptr;
}

void InflatedCache::put(std::size_t shard, Bytes bytes) {
  Slots& all = here();
  Slot evicted{shard, std::move(bytes)};  // freed after the lock is released
  MutexLock lock(all.mutex);
  std::swap(all.slots[all.next], evicted);
  all.next = (all.next + 1) % kShardsMax;
}

}  // namespace stoker
