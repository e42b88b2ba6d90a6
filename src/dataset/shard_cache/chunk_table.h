#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <unordered_map>
#include <utility>

#include "dataset/shard_cache/chunk_id.h"

namespace stoker {

/// Says when chunks are needed next. Times are seconds on a clock of its own, which never goes
/// back.
///
/// Thread safety: as its user; a ChunkTable calls it from one thread at a time.
class UseForecast {
 public:
  virtual ~UseForecast() = default;

  virtual double now() const = 0;
  /// When the chunk is needed next: infinity if announced orders do not need it for long, nothing
  /// if no announced order is about its object.
  virtual std::optional<double> next_use(const ChunkId& id) const = 0;
  /// The same for a chunk that is being read: when it is needed after the reads that have begun.
  virtual std::optional<double> use_after_reads(const ChunkId& id) const = 0;
  /// Changes when other chunks are announced than before.
  virtual std::uint64_t version() const = 0;
};

/// The chunks that a process knows of, in the order in which they may be evicted: furthest next use
/// first. A chunk that nobody has announced counts as needed again after as long as it was not
/// used, which is LRU among such chunks.
///
/// Thread safety: none.
class ChunkTable {
 public:
  explicit ChunkTable(const UseForecast& forecast) : forecast_(forecast) {}

  /// Adds a chunk, or updates it. `used_at` is on the forecast's clock.
  void put(const ChunkId& id, double used_at);
  /// The chunk is used now; returns when it was used before, and nothing if it is not known.
  std::optional<double> touch(const ChunkId& id);
  void erase(const ChunkId& id);
  std::size_t size() const noexcept { return chunks_.size(); }
  void clear();

  struct Due {
    ChunkId id;
    double at = 0;
  };
  /// Returns the chunk to evict first, and when it is needed next.
  std::optional<Due> worst();
  /// When a chunk that is read now is needed again.
  double due_after_reads(const ChunkId& id) const {
    return forecast_.use_after_reads(id).value_or(forecast_.now());
  }

 private:
  struct Hash {
    std::size_t operator()(const ChunkId& id) const noexcept {
      return id.object.low ^ (id.offset_bytes * 0x9e3779b97f4a7c15ULL);
    }
  };
  struct Chunk {
    double used_at = 0;
    double due = 0;  // if it is announced
    bool is_announced = false;
  };
  using Entry = std::pair<double, ChunkId>;

  void place(const ChunkId& id, Chunk& chunk);
  void displace(const ChunkId& id, const Chunk& chunk);
  void refresh();

  const UseForecast& forecast_;
  std::unordered_map<ChunkId, Chunk, Hash> chunks_;
  std::set<Entry> announced_;  // by the next use, as it was when they were placed
  std::set<Entry> others_;     // by the last use
  std::uint64_t version_ = 0;
};

}  // namespace stoker
