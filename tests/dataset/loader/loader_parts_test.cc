// The pure parts of the loader: what is due to whom, when, and how it is counted.
#include <gtest/gtest.h>

#include "dataset/loader/batch_maker.h"
#include "dataset/loader/held_wait.h"
#include "dataset/loader/loader_stats.h"
#include "dataset/loader/loader_tuner.h"

namespace stoker::internal {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Verdict = HeldWait::Verdict;

constexpr Deadline kStart{seconds(1000)};

TEST(HeldWaitTest, it_warns_once_and_gives_up_at_the_limit) {
  HeldWait held(seconds(1), seconds(30));
  EXPECT_EQ(held.waiting(kStart), Verdict::wait);
  EXPECT_EQ(held.wake_at(), kStart + seconds(1));
  EXPECT_EQ(held.waiting(kStart + milliseconds(999)), Verdict::wait);
  EXPECT_EQ(held.waiting(kStart + seconds(1)), Verdict::warn);
  EXPECT_EQ(held.wake_at(), kStart + seconds(30));
  EXPECT_EQ(held.waiting(kStart + seconds(29)), Verdict::wait);
  EXPECT_EQ(held.waiting(kStart + seconds(30)), Verdict::fail);
  EXPECT_EQ(held.waiting(kStart + seconds(31)), Verdict::wait);  // the count began anew
}

TEST(HeldWaitTest, only_the_time_inside_of_calls_counts) {
  HeldWait held(seconds(1), seconds(30));
  Deadline now = kStart;
  for (int call = 0; call < 29; ++call) {  // each waits for a second, then an hour passes
    EXPECT_NE(held.waiting(now), Verdict::fail);
    now += seconds(1);
    EXPECT_NE(held.waiting(now), Verdict::fail) << call;
    held.pause(now);
    now += seconds(3600);
  }
  EXPECT_EQ(held.waiting(now), Verdict::wait);
  EXPECT_EQ(held.waiting(now + seconds(1)), Verdict::fail);
}

TEST(HeldWaitTest, a_batch_ends_the_wait) {
  HeldWait held(seconds(1), seconds(30));
  EXPECT_EQ(held.waiting(kStart), Verdict::wait);
  EXPECT_EQ(held.waiting(kStart + seconds(29)), Verdict::warn);
  held.reset();
  EXPECT_EQ(held.waiting(kStart + seconds(29)), Verdict::wait);
  EXPECT_EQ(held.waiting(kStart + seconds(31)), Verdict::warn);
}

TEST(LoaderStatsTest, a_wait_is_cut_by_the_stages_of_the_batch) {
  StageTimes times;
  times.enter(LoaderStage::memory, kStart + seconds(1));
  times.enter(LoaderStage::store, kStart + seconds(3));
  times.enter(LoaderStage::read, kStart + seconds(5));
  times.enter(LoaderStage::decode, kStart + seconds(6));
  times.enter(LoaderStage::collate, kStart + seconds(10));
  using Cut = std::array<nanoseconds, kLoaderStages>;
  EXPECT_EQ(attribute_wait(times, kStart, kStart + seconds(11)),
            (Cut{seconds(1), seconds(2), seconds(2), seconds(1), seconds(4), seconds(1)}));
  EXPECT_EQ(attribute_wait(times, kStart + seconds(4), kStart + seconds(7)),
            (Cut{seconds(0), seconds(0), seconds(1), seconds(1), seconds(1), seconds(0)}));
  EXPECT_EQ(attribute_wait(times, kStart + seconds(20), kStart + seconds(21)),
            (Cut{seconds(0), seconds(0), seconds(0), seconds(0), seconds(0), seconds(1)}));
  EXPECT_EQ(attribute_wait(times, kStart, kStart), Cut{});
}

/// A machine on which the wait for a batch is `ideal` with `enough` threads, and longer with fewer.
LoaderTuner::Setting settle(LoaderTuner& tuner, std::size_t enough, int windows) {
  for (int i = 0; i < windows * static_cast<int>(LoaderTuner::kWindowBatches); ++i) {
    const std::size_t threads = std::min(tuner.setting().threads, enough);
    const milliseconds make(100 / static_cast<int>(threads));
    tuner.saw(make, make);  // a caller that does nothing but wait
  }
  return tuner.setting();
}

TEST(LoaderTunerTest, it_raises_what_helps_and_takes_back_what_does_not) {
  LoaderTuner tuner({.threads_max = 16, .depth_max = 64});
  EXPECT_EQ(tuner.setting(), (LoaderTuner::Setting{4, 6}));
  const LoaderTuner::Setting found = settle(tuner, 5, 100);
  EXPECT_GE(found.threads, 5U);
  EXPECT_LE(found.threads, 9U);  // one more while it is being tried
  LoaderTuner small({.threads_max = 3, .depth_max = 64});
  EXPECT_EQ(small.setting(), (LoaderTuner::Setting{2, 4}));
}

TEST(LoaderTunerTest, many_cores_are_found_within_a_few_windows) {
  LoaderTuner tuner({.threads_max = 64, .depth_max = 128});
  EXPECT_EQ(settle(tuner, 64, 3).threads, 64U);
}

TEST(LoaderTunerTest, it_gives_threads_back_when_nobody_waits) {
  LoaderTuner tuner({.threads_max = 16, .depth_max = 64});
  settle(tuner, 5, 100);
  for (int i = 0; i < 1000 * static_cast<int>(LoaderTuner::kWindowBatches); ++i)
    tuner.saw(nanoseconds(0), milliseconds(100));
  EXPECT_EQ(tuner.setting().threads, 1U);
}

TEST(LoaderTunerTest, what_is_fixed_by_hand_stays) {
  LoaderTuner tuner({.threads = 3, .depth = 7, .threads_max = 3, .depth_max = 7});
  EXPECT_EQ(settle(tuner, 16, 100), (LoaderTuner::Setting{3, 7}));
  LoaderTuner threads({.threads = 3, .threads_max = 3, .depth_max = 64});
  EXPECT_EQ(settle(threads, 16, 100).threads, 3U);
}

TEST(LoaderTunerTest, it_stays_within_its_bounds) {
  LoaderTuner tuner({.threads_max = 3, .depth_max = 4});
  for (int i = 0; i < 10'000; ++i) {
    tuner.saw(nanoseconds(1'000'000 / (i + 1)), milliseconds(1));
    ASSERT_LE(tuner.setting().threads, 3U);
    ASSERT_LE(tuner.setting().depth, 4U);
    ASSERT_GE(tuner.setting().threads, 1U);
  }
}

TEST(ReplacementTest, it_never_changes) {
  // A run that is resumed in years replaces a damaged sample by the same one.
  EXPECT_EQ(replacement_sample(7, 0, 0, 0, 1'000'000), 957'144U);
  EXPECT_EQ(replacement_sample(7, 1, 2, 3, 1'000'000), 146'780U);
  EXPECT_EQ(replacement_sample(7, 1, 2, 4, 1), 0U);
}

TEST(ReplacementTest, it_reaches_every_sample) {
  std::vector<int> seen(100);
  for (std::uint64_t position = 0; position < 10'000; ++position)
    ++seen[replacement_sample(1, 0, position, 0, seen.size())];
  for (const int count : seen) EXPECT_NEAR(count, 100, 60);
}

}  // namespace
}  // namespace stoker::internal
