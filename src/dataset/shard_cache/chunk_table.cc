#include "dataset/shard_cache/chunk_table.h"

#include <iterator>

namespace stoker {

void ChunkTable::place(const ChunkId& id, Chunk& chunk) {
  const std::optional<double> due = forecast_.next_use(id);
  chunk.is_announced = due.has_value();
  chunk.due = due.value_or(0);
  if (chunk.is_announced) {
    announced_.emplace(chunk.due, id);
  } else {
    others_.emplace(chunk.used_at, id);
  }
}

void ChunkTable::displace(const ChunkId& id, const Chunk& chunk) {
  if (chunk.is_announced) {
    announced_.erase({chunk.due, id});
  } else {
    others_.erase({chunk.used_at, id});
  }
}

void ChunkTable::put(const ChunkId& id, double used_at) {
  const auto [found, is_new] = chunks_.try_emplace(id);
  Chunk& chunk = found->second;
  if (!is_new) displace(id, chunk);
  chunk.used_at = used_at;
  place(id, chunk);
}

std::optional<double> ChunkTable::touch(const ChunkId& id) {
  const auto found = chunks_.find(id);
  if (found == chunks_.end()) return std::nullopt;
  Chunk& chunk = found->second;
  const double before = chunk.used_at;
  // The next use of an announced chunk is computed when it is compared, see refresh().
  if (chunk.is_announced) {
    chunk.used_at = forecast_.now();
    return before;
  }
  others_.erase({before, id});
  chunk.used_at = forecast_.now();
  others_.emplace(chunk.used_at, id);
  return before;
}

void ChunkTable::erase(const ChunkId& id) {
  const auto found = chunks_.find(id);
  if (found == chunks_.end()) return;
  displace(id, found->second);
  chunks_.erase(found);
}

void ChunkTable::clear() {
  chunks_.clear();
  announced_.clear();
  others_.clear();
}

/// Computes the next use again of all chunks whose last forecast has come true, and of all chunks
/// if others were announced since.
void ChunkTable::refresh() {
  if (forecast_.version() != version_) {
    version_ = forecast_.version();
    announced_.clear();
    others_.clear();
    for (auto& [id, chunk] : chunks_) place(id, chunk);
    return;
  }
  const double now = forecast_.now();
  while (!announced_.empty() && announced_.begin()->first < now) {
    const ChunkId id = announced_.begin()->second;
    announced_.erase(announced_.begin());
    place(id, chunks_.find(id)->second);
    if (!announced_.empty() && announced_.begin()->second == id) break;  // due now
  }
}

std::optional<ChunkTable::Due> ChunkTable::worst() {
  refresh();
  const double now = forecast_.now();
  for (;;) {
    const bool is_other =
        !others_.empty() &&
        (announced_.empty() || 2 * now - others_.begin()->first > announced_.rbegin()->first);
    if (is_other) {
      const auto& [used_at, id] = *others_.begin();
      return Due{.id = id, .at = 2 * now - used_at};
    }
    if (announced_.empty()) return std::nullopt;
    // Forecasts move with the speed of the readers: the worst is computed again before it goes.
    const auto last = std::prev(announced_.end());
    const ChunkId id = last->second;
    const double before = last->first;
    Chunk& chunk = chunks_.find(id)->second;
    announced_.erase(last);
    place(id, chunk);
    if (!chunk.is_announced) continue;
    const bool is_last = announced_.rbegin()->second == id;
    // A forecast that only came nearer than others is compared with them; it cannot go on for ever,
    // because the next in line was not computed in this call yet, or is the worst.
    if (is_last || chunk.due >= before) return Due{.id = id, .at = chunk.due};
  }
}

}  // namespace stoker
