/// \file
/// What a loader has done, and what its caller waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/histogram.h"
#include "dataset/batch/stage_times.h"
#include "dataset/fetch/fetch_plan.h"

namespace stoker {

/// Divides the wait [from, to) among the stages of the batch, given by `times`. The last stage
/// lasts until the caller has the batch, including the time to wake up.
std::array<nanoseconds, kLoaderStages> attribute_wait(const StageTimes& times, Deadline from,
                                                      Deadline to);

/// Adds the counters of another fetcher.
void add_counters(FetchCounters& sum, const FetchCounters& more) noexcept;

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
