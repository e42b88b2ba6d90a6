#include "bench/paired_trials.h"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace stoker::testing {
namespace {

TEST(PairedTrialsTest, a_gain_in_every_pair_is_clear) {
  const std::vector<double> base = {100, 90, 110, 100, 95};
  const std::vector<double> faster = {110, 100, 120, 108, 101};
  const PairedVerdict verdict = compare_pairs(base, faster);
  EXPECT_EQ(verdict.pairs, 5U);
  EXPECT_EQ(verdict.wins, 5U);
  EXPECT_NEAR(verdict.gain, 10.0 / 110, 1e-9);
  EXPECT_TRUE(verdict.is_clear);
  EXPECT_FALSE(compare_pairs(faster, base).is_clear);
}

TEST(PairedTrialsTest, a_gain_that_nobody_would_notice_is_not_clear) {
  const std::vector<double> base(9, 100);
  EXPECT_FALSE(compare_pairs(base, std::vector<double>(9, 104.9)).is_clear);
  EXPECT_TRUE(compare_pairs(base, std::vector<double>(9, 105.1)).is_clear);
}

TEST(PairedTrialsTest, one_pair_may_go_the_other_way_if_there_are_enough) {
  const std::vector<double> base(9, 100);
  std::vector<double> faster(9, 150);
  faster[4] = 90;
  EXPECT_TRUE(compare_pairs(base, faster).is_clear);
  faster[7] = 99;
  EXPECT_FALSE(compare_pairs(base, faster).is_clear) << "two";
  const std::vector<double> few = {150, 150, 90, 150, 150, 150};
  EXPECT_FALSE(compare_pairs(base, few).is_clear) << "too few";
}

TEST(PairedTrialsTest, too_few_pairs_say_nothing) {
  const std::vector<double> base(4, 100);
  EXPECT_FALSE(compare_pairs(base, std::vector<double>(4, 300)).is_clear);
  EXPECT_EQ(compare_pairs({}, {}).pairs, 0U);
  EXPECT_FALSE(compare_pairs({}, {}).is_clear);
  const std::vector<double> nothing(9, 0);
  EXPECT_EQ(compare_pairs(nothing, std::vector<double>(9, 1)).pairs, 0U);
}

TEST(PairedTrialsTest, equals_under_noise_are_seldom_called_different) {
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise(100, 20);
  int clear = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    std::vector<double> base;
    std::vector<double> same;
    for (int i = 0; i < 9; ++i) {
      base.push_back(noise(random));
      same.push_back(noise(random));
    }
    clear += compare_pairs(base, same).is_clear ? 1 : 0;
  }
  EXPECT_LT(clear, 2000 / 25);
}

TEST(PairedTrialsTest, the_median_of_an_even_number_lies_between) {
  EXPECT_EQ(median_of({}), 0);
  EXPECT_EQ(median_of(std::vector<double>{3, 1, 2}), 2);
  EXPECT_EQ(median_of(std::vector<double>{4, 1, 2, 3}), 2.5);
}

}  // namespace
}  // namespace stoker::testing
