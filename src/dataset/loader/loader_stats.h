/// \file
/// What a loader has done and what its caller waited for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/clock.h"
#include "base/histogram.h"
#include "dataset/batch/stage_times.h"
#include "dataset/fetch/fetch_plan.h"

namespace stoker {

/// Cuts the wait [from, to) by the stages that `times` says the batch was in. The last one lasts
/// until the caller has it, waking up included.
std::array<nanoseconds, kLoaderStages> attribute_wait(const StageTimes& times, Deadline from,
                                                      Deadline to);

/// Adds what another fetcher counted.
void add_counters(FetchCounters& sum, const FetchCounters& more) noexcept;

struct LoaderStats {
  std::uint64_t batches = 0;  ///< Handed over.
  std::uint64_t samples = 0;  ///< In them.
  std::uint64_t bytes = 0;    ///< Records' bytes of these.
  /// Samples whose records nothing could check: their index has no checksums.
  std::uint64_t unchecked = 0;
  std::uint64_t replaced = 0;  ///< OnError::skip: samples that others stand for.

  /// Heap memory that they took besides their leases: unescaped JSON text, decoded varints, records
  /// of samples that stand for others.
  std::uint64_t spare_bytes = 0;

  HistogramSnapshot wait;  ///< Of the calls of next() that gave a batch.
  nanoseconds waited{0};   ///< All of it.
  std::array<nanoseconds, kLoaderStages> waited_in{};
  /// Since the first call of next(), until the last one that gave a batch.
  nanoseconds elapsed{0};

  std::uint64_t held_warnings = 0;  ///< Times that held batches made next() wait for a second.
  std::uint64_t held_errors = 0;    ///< Times that it gave up.

  std::size_t threads = 0;  ///< Working now.
  std::size_t depth = 0;    ///< Batches that may be under way or ready.
  std::size_t memory_bytes = 0;
  std::size_t leased_bytes = 0;  ///< Of them: batches under way, ready, and held.
  std::uint64_t blocks = 0;      ///< Of a block order: read whole.
  std::size_t block_bytes = 0;   ///< The memory of those that are there now.
  FetchCounters fetch;           ///< Of all threads.

  /// The share of the caller's time that it waited for batches.
  double stall_share() const noexcept {
    return elapsed.count() > 0
               ? static_cast<double>(waited.count()) / static_cast<double>(elapsed.count())
               : 0.0;
  }
};

}  // namespace stoker
