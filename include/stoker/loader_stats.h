/// \file
/// What a loader has done, and what its caller waited for.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "stoker/api.h"
#include "stoker/histogram.h"

namespace stoker {

/// The stage that a batch is in. The caller's wait for a batch is attributed to the stages that the
/// batch was in during the wait.
enum class LoaderStage : std::uint8_t {
  queue,    ///< Not started, because all threads are busy with earlier batches; or being planned.
  memory,   ///< Waiting for memory that earlier batches, or those the caller holds, use.
  store,    ///< Waiting for bytes of an object store; through a cache, of what it does not have.
  read,     ///< Being read otherwise; for compressed shards also decompressed.
  decode,   ///< Being split into fields and converted.
  collate,  ///< Being assembled and handed over.
};
inline constexpr std::size_t kLoaderStages = 6;

/// "queue", "memory", "store", "read", "decode", "collate".
STOKER_API std::string_view loader_stage_name(LoaderStage stage) noexcept;

/// Counters of a fetcher since it was made. The `*_reads` and `*_bytes` of the read paths count
/// file reads: they include bytes added by alignment and merging, and a repeated record once.
struct FetchCounters {
  std::uint64_t record_count = 0;      ///< Records and row pieces requested.
  std::uint64_t record_bytes = 0;      ///< Bytes of those that were read.
  std::uint64_t failure_count = 0;     ///< Records and row pieces that failed.
  std::uint64_t checked_bytes = 0;     ///< Verified with a checksum of the index.
  std::uint64_t page_cache_reads = 0;  ///< Cached data, read by the thread itself.
  std::uint64_t page_cache_bytes = 0;
  std::uint64_t buffered_reads = 0;  ///< Through the page cache, not cached before.
  std::uint64_t buffered_bytes = 0;
  std::uint64_t direct_reads = 0;  ///< Bypassing the page cache.
  std::uint64_t direct_bytes = 0;
  std::uint64_t drop_behind_reads = 0;  ///< Through the page cache, then dropped from it.
  std::uint64_t drop_behind_bytes = 0;
  std::uint64_t store_reads = 0;  ///< Of objects that are not local files.
  std::uint64_t store_bytes = 0;
  std::uint64_t inflated_bytes = 0;   ///< Copied out of compressed shards.
  std::uint64_t residency_looks = 0;  ///< cachestat(2) calls, for whole shards and single ranges.
  nanoseconds plan_time{0};
  nanoseconds read_time{0};   ///< Time in read(), including waiting.
  nanoseconds wait_time{0};   ///< Part of read_time: idle until the device or the store answers.
  nanoseconds store_time{0};  ///< Part of wait_time: for the store.
};

/// Figures of a loader, since its current run began. Plain data.
struct LoaderStats {
  std::uint64_t batches = 0;  ///< Batches handed over.
  std::uint64_t samples = 0;  ///< Samples in them.
  std::uint64_t bytes = 0;    ///< Bytes of their records.
  /// Samples read without any checksum: neither the index nor the format has one.
  std::uint64_t unchecked = 0;
  std::uint64_t replaced = 0;  ///< OnError::skip: samples that were replaced.

  /// Heap memory of the batches besides their leases: unescaped JSON text, decoded varints, records
  /// of replacement samples.
  std::uint64_t spare_bytes = 0;

  HistogramSnapshot wait;  ///< Of the calls of next() that returned a batch.
  nanoseconds waited{0};   ///< Sum of these waits.
  std::array<nanoseconds, kLoaderStages> waited_in{};
  /// From the first call of next() to the last one that returned a batch.
  nanoseconds elapsed{0};

  std::uint64_t held_warnings = 0;  ///< Times next() waited `held_warning` for held batches.
  std::uint64_t held_errors = 0;    ///< Times it gave up after `held_limit`.

  std::size_t threads = 0;  ///< Working threads.
  std::size_t depth = 0;    ///< Batches that may be in progress or ready.
  std::size_t memory_bytes = 0;
  std::size_t leased_bytes = 0;  ///< By batches: in progress, ready, and held.
  std::uint64_t blocks = 0;      ///< Whole blocks read, in a block order.
  std::size_t block_bytes = 0;   ///< Memory of the blocks kept now.
  FetchCounters fetch;           ///< Of all threads.

  /// The share of its time that the caller waited for batches.
  double stall_share() const noexcept {
    return elapsed.count() > 0
               ? static_cast<double>(waited.count()) / static_cast<double>(elapsed.count())
               : 0.0;
  }
};

}  // namespace stoker
