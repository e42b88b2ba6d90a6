#include "stoker/histogram.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace stoker {
namespace {

using Buckets = HistogramBuckets;

TEST(HistogramTest, buckets_tile_the_whole_range) {
  EXPECT_EQ(Buckets::lowest_in(0), 0U);
  for (std::size_t i = 0; i < Buckets::kCount; ++i) {
    SCOPED_TRACE(i);
    const std::uint64_t lowest = Buckets::lowest_in(i);
    const std::uint64_t highest = Buckets::lowest_in(i + 1) - 1;
    EXPECT_EQ(Buckets::index_of(lowest), i);
    EXPECT_EQ(Buckets::index_of(highest), i);
    const std::uint64_t middle = Buckets::middle_of(i);
    EXPECT_LE(std::max(middle - lowest, highest - middle), lowest / 64);
  }
  EXPECT_EQ(Buckets::lowest_in(Buckets::kCount) - 1,
            static_cast<std::uint64_t>(nanoseconds::max().count()));
}

/// Samples of every magnitude from 1 ns to about 18 minutes.
std::vector<nanoseconds> random_samples(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<nanoseconds> samples(count);
  for (nanoseconds& sample : samples) sample = nanoseconds((random() >> 24) >> (random() % 40));
  return samples;
}

TEST(HistogramTest, quantiles_are_within_a_64th_of_the_exact_ones) {
  std::vector<nanoseconds> samples = random_samples(20'001, 42);
  Histogram histogram;
  for (const nanoseconds sample : samples) histogram.record(sample);
  std::sort(samples.begin(), samples.end());

  const HistogramSnapshot snapshot = histogram.snapshot();
  for (const double p : {0.0001, 0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999, 0.9999}) {
    const auto rank = static_cast<std::size_t>(std::ceil(p * static_cast<double>(samples.size())));
    const nanoseconds exact = samples[rank - 1];
    EXPECT_LE(std::chrono::abs(snapshot.quantile(p) - exact), exact / 64) << p;
  }
  EXPECT_EQ(snapshot.quantile(0), samples.front());
  EXPECT_EQ(snapshot.quantile(1), samples.back());
}

TEST(HistogramTest, count_min_max_and_mean_are_exact) {
  Histogram histogram;
  for (const int sample : {1'000'003, 7, 500'000'002}) histogram.record(nanoseconds(sample));
  const HistogramSnapshot snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.count(), 3U);
  EXPECT_EQ(snapshot.min(), nanoseconds(7));
  EXPECT_EQ(snapshot.max(), nanoseconds(500'000'002));
  EXPECT_EQ(snapshot.mean(), nanoseconds(501'000'012 / 3));
}

TEST(HistogramTest, empty_one_answers_zero) {
  const HistogramSnapshot snapshot = Histogram().snapshot();
  EXPECT_EQ(snapshot.count(), 0U);
  for (const double p : {0.0, 0.5, 1.0}) EXPECT_EQ(snapshot.quantile(p), nanoseconds(0));
  EXPECT_EQ(snapshot.min(), nanoseconds(0));
  EXPECT_EQ(snapshot.max(), nanoseconds(0));
  EXPECT_EQ(snapshot.mean(), nanoseconds(0));
}

TEST(HistogramTest, extremes_are_counted) {
  Histogram histogram;
  histogram.record(nanoseconds::min());  // a clock that ran backwards
  histogram.record(nanoseconds(0));
  for (int i = 0; i < 3; ++i) histogram.record(nanoseconds::max());  // the sum saturates
  const HistogramSnapshot snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.count(), 5U);
  EXPECT_EQ(snapshot.min(), nanoseconds(0));
  EXPECT_EQ(snapshot.max(), nanoseconds::max());
  EXPECT_EQ(snapshot.quantile(0.4), nanoseconds(0));
  EXPECT_GE(snapshot.quantile(0.5), nanoseconds::max() - nanoseconds::max() / 64);
  EXPECT_GE(snapshot.mean(), nanoseconds::max() / 5);
}

TEST(HistogramTest, share_outside_zero_to_one_is_clamped) {
  Histogram histogram;
  histogram.record(nanoseconds(10));
  histogram.record(nanoseconds(20));
  const HistogramSnapshot snapshot = histogram.snapshot();
  EXPECT_EQ(snapshot.quantile(-1), nanoseconds(10));
  EXPECT_EQ(snapshot.quantile(2), nanoseconds(20));
  EXPECT_EQ(snapshot.quantile(std::nan("")), nanoseconds(10));
}

TEST(HistogramTest, merged_ones_answer_as_one_that_saw_it_all) {
  Histogram left;
  Histogram right;
  Histogram both;
  for (const nanoseconds sample : random_samples(1000, 1)) {
    left.record(sample);
    both.record(sample);
  }
  for (const nanoseconds sample : random_samples(500, 2)) {
    right.record(sample);
    both.record(sample);
  }
  HistogramSnapshot merged;  // empty: merging into it must not leave its zero as the minimum
  merged.merge(left.snapshot());
  merged.merge(right.snapshot());
  const HistogramSnapshot expected = both.snapshot();
  EXPECT_EQ(merged.count(), expected.count());
  EXPECT_EQ(merged.min(), expected.min());
  EXPECT_EQ(merged.max(), expected.max());
  EXPECT_EQ(merged.mean(), expected.mean());
  for (const double p : {0.1, 0.5, 0.99}) EXPECT_EQ(merged.quantile(p), expected.quantile(p));
}

TEST(HistogramTest, reader_finds_every_snapshot_consistent_while_it_is_written) {
  constexpr std::uint64_t kSamples = 20'000;
  Histogram histogram;
  std::jthread writer([&] {
    std::mt19937_64 random(42);
    for (std::uint64_t i = 0; i < kSamples; ++i) histogram.record(nanoseconds(random() >> 30));
  });
  std::uint64_t last = 0;
  while (last < kSamples) {
    const HistogramSnapshot snapshot = histogram.snapshot();
    ASSERT_GE(snapshot.count(), last);
    last = snapshot.count();
    ASSERT_LE(snapshot.min(), snapshot.quantile(0.5));
    ASSERT_LE(snapshot.quantile(0.5), snapshot.max());
    ASSERT_LE(snapshot.mean(), snapshot.max());
  }
  EXPECT_EQ(last, kSamples);
}

}  // namespace
}  // namespace stoker
