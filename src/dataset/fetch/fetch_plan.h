/// \file
/// What a fetch is made of: which ranges of which shards are read, on which path, to which place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "formats/shard_format.h"
#include "io/files/cache_policy.h"
#include "stoker/status.h"

namespace stoker {

/// A record in memory, or why it is not there.
struct FetchedRecord {
  std::span<const std::byte> bytes = {};  ///< In the memory given to read(); empty on failure.
  std::uint64_t offset_bytes = 0;         ///< Where it lies in its shard: what split() wants.
  std::uint32_t shard = 0;
  Status status = {};
};

/// A part of a shard that belongs at a place of its own in an array of the caller's: a token
/// window, or a document of a pack.
struct RowPiece {
  std::uint32_t dataset = 0;
  std::uint32_t shard = 0;
  ByteRange range = {};        ///< In the shard, uncompressed.
  std::uint64_t at_bytes = 0;  ///< Where it belongs in the rows.
  std::uint32_t row = 0;       ///< Whose Status it is if it cannot be read.
  /// Of the piece, if it is to be compared: a window of a longer sequence has none.
  std::optional<std::uint32_t> crc32c = {};
};

/// What a fetcher has done since it was made. Bytes and reads are those of the files: with what
/// alignment and merging added, and without records that came twice.
struct FetchCounters {
  std::uint64_t record_count = 0;      ///< Records and row pieces asked for.
  std::uint64_t record_bytes = 0;      ///< Bytes of those that came.
  std::uint64_t failure_count = 0;     ///< Records and row pieces that could not be had.
  std::uint64_t checked_bytes = 0;     ///< Compared with a checksum of the index.
  std::uint64_t page_cache_reads = 0;  ///< Of data that was there already, on the thread itself.
  std::uint64_t page_cache_bytes = 0;
  std::uint64_t buffered_reads = 0;  ///< Through the page cache, of data that was not there.
  std::uint64_t buffered_bytes = 0;
  std::uint64_t direct_reads = 0;  ///< Past the page cache.
  std::uint64_t direct_bytes = 0;
  std::uint64_t drop_behind_reads = 0;  ///< Through the page cache, and dropped from it again.
  std::uint64_t drop_behind_bytes = 0;
  std::uint64_t store_reads = 0;  ///< Of objects that are no local files.
  std::uint64_t store_bytes = 0;
  std::uint64_t inflated_bytes = 0;   ///< Copied out of compressed shards.
  std::uint64_t residency_looks = 0;  ///< cachestat(2), of whole shards and of single ranges.
  nanoseconds plan_time{0};
  nanoseconds read_time{0};  ///< All of read(), waiting included.
  nanoseconds wait_time{0};  ///< Of it: nothing to do until the device answers.
};

/// One fetch, ready to be read. Made by RecordFetcher::plan() and plan_rows(), reused from batch to
/// batch so that its vectors keep their memory. Refers to nothing inside the fetcher: any number of
/// plans may wait for memory at the same time.
///
/// Thread safety: none.
class FetchPlan {
 public:
  /// What read() needs: 4096-aligned.
  std::uint64_t memory_bytes = 0;
  /// Entries of `out` that read() fills.
  std::size_t record_count() const noexcept { return record_count_; }

  /// How the bytes of a run come.
  enum class Way : std::uint8_t {
    page_cache,  ///< They are there: read by the thread itself, tightly packed.
    engine,      ///< From the device, by the path of `Run::path`, many at a time.
    inflated,    ///< Copied out of a shard that is compressed as a whole.
    store,       ///< From a store that is not local, many at a time.
  };
  /// Whether a run is read into the memory, many at a time, and cut out of it; else it goes
  /// straight to its place.
  static constexpr bool is_batched(Way way) noexcept {
    return way == Way::engine || way == Way::store;
  }

  /// Neighbours in a file that are read at once.
  struct Run {
    std::uint32_t dataset = 0;
    std::uint32_t shard = 0;
    std::uint64_t offset_bytes = 0;  ///< Of the bytes asked for.
    std::uint64_t size_bytes = 0;
    std::uint64_t room_at = 0;     ///< Where they go in the memory, what widens them first.
    std::uint32_t skip_bytes = 0;  ///< What comes before the first byte asked for.
    std::uint32_t item_first = 0;
    std::uint32_t item_count = 0;
    Way way = Way::page_cache;
    IoPath path = IoPath::buffered;
  };

  /// One record, or one piece of a row.
  struct Item {
    std::uint64_t sample = 0;  ///< In its dataset; unused for pieces of rows.
    std::uint64_t offset_bytes = 0;
    std::uint64_t size_bytes = 0;
    std::uint64_t row_at = 0;  ///< Its place in the rows, for pieces of rows.
    std::uint32_t out = 0;     ///< Its entry in `out`.
    std::uint32_t crc32c = 0;
    bool is_checked = false;  ///< Whether `crc32c` is to be compared.
  };

  /// What is known before anything is read: a shard that cannot be opened, a damaged index.
  struct Failure {
    std::uint32_t out = 0;
    Status status;
  };

 private:
  friend class FetchDelivery;
  friend class FetchPlanner;
  friend class RecordFetcher;

  /// Ready for `item_count` records or pieces.
  void clear(std::size_t item_count) {
    runs_.reserve(item_count);
    items_.reserve(item_count);
    memory_bytes = 0;
    record_count_ = 0;
    row_bytes_ = 0;
    is_rows_ = false;
    runs_.clear();
    items_.clear();
    failures_.clear();
  }

  std::size_t record_count_ = 0;
  std::uint64_t row_bytes_ = 0;  // of all rows together
  bool is_rows_ = false;
  std::vector<Run> runs_;    // by dataset, shard and offset
  std::vector<Item> items_;  // in the order of the runs
  std::vector<Failure> failures_;
};

}  // namespace stoker
