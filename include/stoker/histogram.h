/// \file
/// Latency distributions in fixed memory: a Histogram that one thread fills, and the
/// HistogramSnapshot through which other threads read it.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "stoker/api.h"

namespace stoker {

using std::chrono::nanoseconds;

/// Maps durations to buckets: one bucket per nanosecond below 64 ns, and 32 equal buckets for each
/// power of two above. The middle of a bucket is then within 1/64 (1.6 %) of every value in it,
/// over the whole range of nanoseconds. (The layout of HdrHistogram, with five bits of precision.)
struct HistogramBuckets {
  static constexpr unsigned kPrecisionBits = 5;
  static constexpr std::size_t kPerOctave = std::size_t{1} << kPrecisionBits;
  static constexpr std::size_t kCount = kPerOctave * (64 - kPrecisionBits);

  /// `value` must be at most 2^63 - 1, which is nanoseconds::max().
  static constexpr std::size_t index_of(std::uint64_t value) noexcept {
    if (value < kPerOctave) return value;
    const auto shift = static_cast<unsigned>(std::bit_width(value)) - 1 - kPrecisionBits;
    return shift * kPerOctave + (value >> shift);  // value >> shift is in [32, 64)
  }
  static constexpr std::uint64_t lowest_in(std::size_t index) noexcept {
    if (index < kPerOctave) return index;
    const std::size_t shift = index / kPerOctave - 1;
    return (kPerOctave + index % kPerOctave) << shift;
  }
  static constexpr std::uint64_t middle_of(std::size_t index) noexcept {
    const std::size_t shift = index < kPerOctave ? 0 : index / kPerOctave - 1;
    return lowest_in(index) + ((std::uint64_t{1} << shift) - 1) / 2;
  }
};

/// The contents of a Histogram, or of several merged ones, at one time. 15 KiB; copyable.
///
/// Thread safety: none.
class STOKER_API HistogramSnapshot {
 public:
  /// Adds the samples of `other`, as if one histogram had recorded them all.
  void merge(const HistogramSnapshot& other) noexcept;

  std::uint64_t count() const noexcept { return count_; }
  /// Returns the duration that a share `p` of all samples does not exceed (nearest rank), to within
  /// 1/64 of its value; min() for p <= 0, max() for p >= 1. Without samples this and the functions
  /// below return 0.
  nanoseconds quantile(double p) const noexcept;
  nanoseconds min() const noexcept;
  nanoseconds max() const noexcept;
  /// Exact, rounded down, unless the samples add up to more than 584 years.
  nanoseconds mean() const noexcept;

 private:
  friend class Histogram;

  std::array<std::uint64_t, HistogramBuckets::kCount> buckets_{};
  std::uint64_t count_ = 0;
  std::uint64_t sum_ = 0;
  std::uint64_t min_ = std::numeric_limits<std::uint64_t>::max();
  std::uint64_t max_ = 0;
};

/// Counts durations. 15 KiB, no allocation; record() is wait-free and costs a few nanoseconds.
///
/// Memory order: record() stores minimum, maximum and sum first and its bucket last, with release;
/// snapshot() loads the buckets first, with acquire. A reader that sees a sample in its bucket
/// therefore also sees it in the other fields, and quantiles are between min() and max(). On x86
/// that costs nothing. The other loads and stores are relaxed: only the owner writes, so it reads
/// its own values.
///
/// Thread safety: record() from one thread at a time, its owner; snapshot() from any thread.
class STOKER_API Histogram {
 public:
  /// A negative duration counts as 0.
  void record(nanoseconds duration) noexcept {
    const auto value = duration.count() > 0 ? static_cast<std::uint64_t>(duration.count()) : 0;
    if (value < min_.load(std::memory_order_relaxed)) min_.store(value, std::memory_order_relaxed);
    if (value > max_.load(std::memory_order_relaxed)) max_.store(value, std::memory_order_relaxed);
    std::uint64_t sum = sum_.load(std::memory_order_relaxed);
    if (__builtin_add_overflow(sum, value, &sum)) sum = std::numeric_limits<std::uint64_t>::max();
    sum_.store(sum, std::memory_order_relaxed);
    std::atomic<std::uint64_t>& bucket = buckets_[HistogramBuckets::index_of(value)];
    bucket.store(bucket.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }

  /// Returns every sample recorded before the call, and possibly some recorded during it. The mean
  /// may include samples that count() does not, but stays between min() and max().
  HistogramSnapshot snapshot() const noexcept;

 private:
  std::atomic<std::uint64_t> min_{std::numeric_limits<std::uint64_t>::max()};
  std::atomic<std::uint64_t> max_{0};
  std::atomic<std::uint64_t> sum_{0};
  std::array<std::atomic<std::uint64_t>, HistogramBuckets::kCount> buckets_{};
};

}  // namespace stoker
