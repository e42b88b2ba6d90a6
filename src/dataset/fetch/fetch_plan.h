/// \file
/// The parts of a fetch: which ranges of which shards are read, how, and into which memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "formats/shard_format.h"
#include "io/files/cache_policy.h"
#include "stoker/loader_stats.h"
#include "stoker/status.h"

namespace stoker {

/// A record in memory, or why it could not be read.
struct FetchedRecord {
  std::span<const std::byte> bytes = {};  ///< In the memory given to read(); empty on failure.
  std::uint64_t offset_bytes = 0;         ///< Offset in the shard, for split().
  std::uint32_t shard = 0;
  Status status = {};
};

/// A part of a shard that is read to a given place in an array of the caller: a token window, or a
/// document of a pack.
struct RowPiece {
  std::uint32_t dataset = 0;
  std::uint32_t shard = 0;
  ByteRange range = {};        ///< In the shard, uncompressed.
  std::uint64_t at_bytes = 0;  ///< Destination offset in the rows.
  std::uint32_t row = 0;       ///< Row whose Status is set if the piece cannot be read.
  /// Checksum of the piece, if it has one: a window of a longer sequence has none.
  std::optional<std::uint32_t> crc32c = {};
};

/// One fetch, ready to be read. Made by RecordFetcher::plan() and plan_rows(); reuse it from batch
/// to batch to keep the memory of its vectors. It refers to nothing inside the fetcher: any number
/// of plans may wait for memory at the same time.
///
/// Thread safety: none.
class FetchPlan {
 public:
  /// Memory that read() needs, aligned to 4096.
  std::uint64_t memory_bytes = 0;
  /// Number of entries of `out` that read() fills.
  std::size_t record_count() const noexcept { return record_count_; }

  /// How the bytes of a stretch are read.
  enum class Way : std::uint8_t {
    page_cache,  ///< Cached: read by the thread itself, tightly packed.
    engine,      ///< From the device, on the path `Stretch::path`, many at a time.
    inflated,    ///< Copied from a shard that is compressed as a whole.
    store,       ///< From a store that is not local, many at a time.
  };
  /// True if stretches are read into the memory, many at a time, and records are taken from there;
  /// otherwise a stretch goes straight to its destination.
  static constexpr bool is_batched(Way way) noexcept {
    return way == Way::engine || way == Way::store;
  }

  /// Neighboring items of a file that are read at once.
  struct Stretch {
    std::uint32_t dataset = 0;
    std::uint32_t shard = 0;
    std::uint64_t offset_bytes = 0;  ///< Of the requested bytes.
    std::uint64_t size_bytes = 0;
    std::uint64_t room_at = 0;     ///< Destination in the memory, with the skipped bytes first.
    std::uint32_t skip_bytes = 0;  ///< Bytes read before the first requested one.
    std::uint32_t item_first = 0;
    std::uint32_t item_count = 0;
    Way way = Way::page_cache;
    IoPath path = IoPath::buffered;
  };

  /// One record, or one piece of a row.
  struct Item {
    std::uint64_t sample = 0;  ///< Number in its dataset; unused for pieces of rows.
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t row_at = 0;  ///< Offset in the rows, for pieces of rows.
    std::uint32_t out = 0;     ///< Index in `out`.
    std::uint32_t crc32c = 0;
    bool is_checked = false;  ///< Whether to compare `crc32c`.
  };

  /// A failure found while planning: a shard that cannot be opened, a damaged index.
  struct Failure {
    std::uint32_t out = 0;
    Status status;
  };

 private:
  friend class FetchDelivery;
  friend class FetchPlanner;
  friend class RecordFetcher;

  /// Clears the plan and reserves space for `item_count` records or pieces.
  void clear(std::size_t item_count) {
    stretches_.reserve(item_count);
    items_.reserve(item_count);
    memory_bytes = 0;
    record_count_ = 0;
    row_bytes_ = 0;
    is_rows_ = false;
    stretches_.clear();
    items_.clear();
    failures_.clear();
  }

  std::size_t record_count_ = 0;
  std::uint64_t row_bytes_ = 0;  // size of all rows
  bool is_rows_ = false;
  std::vector<Stretch> stretches_;  // sorted by dataset, shard and offset
  std::vector<Item> items_;         // in the order of the stretches
  std::vector<Failure> failures_;
};

}  // namespace stoker
