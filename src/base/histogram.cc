#include "stoker/histogram.h"

#include <algorithm>
#include <cmath>

namespace stoker {

void HistogramSnapshot::merge(const HistogramSnapshot& other) noexcept {
  for (std::size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  if (__builtin_add_overflow(sum_, other.sum_, &sum_)) {
    sum_ = std::numeric_limits<std::uint64_t>::max();
  }
  min_ = std::min(min_, other.min_);
  max_ = std::max(max_, other.max_);
}

nanoseconds HistogramSnapshot::quantile(double p) const noexcept {
  if (count_ == 0) return nanoseconds(0);
  if (!(p > 0)) return min();  // written so that NaN is included
  if (p >= 1) return max();
  const auto rank = static_cast<std::uint64_t>(std::ceil(p * static_cast<double>(count_)));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    seen += buckets_[i];
    if (seen < rank) continue;
    return nanoseconds(std::clamp(HistogramBuckets::middle_of(i), min_, max_));
  }
  return max();  // rank exceeds a count that a double cannot represent exactly
}

nanoseconds HistogramSnapshot::min() const noexcept {
  return nanoseconds(count_ == 0 ? 0 : min_);
}

nanoseconds HistogramSnapshot::max() const noexcept {
  return nanoseconds(count_ == 0 ? 0 : max_);
}

nanoseconds HistogramSnapshot::mean() const noexcept {
  if (count_ == 0) return nanoseconds(0);
  return nanoseconds(std::clamp(sum_ / count_, min_, max_));
}

HistogramSnapshot Histogram::snapshot() const noexcept {
  HistogramSnapshot snapshot;
  for (std::size_t i = 0; i < buckets_.size(); ++i) {
    snapshot.buckets_[i] = buckets_[i].load(std::memory_order_acquire);
    snapshot.count_ += snapshot.buckets_[i];
  }
  // relaxed: the acquire loads above order these loads after the samples they saw.
  snapshot.sum_ = sum_.load(std::memory_order_relaxed);
  snapshot.min_ = min_.load(std::memory_order_relaxed);
  snapshot.max_ = max_.load(std::memory_order_relaxed);
  return snapshot;
}

}  // namespace stoker
