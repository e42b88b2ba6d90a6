#include "cli/loader/tune_outcome.h"

#include <gtest/gtest.h>

namespace stoker::cli {
namespace {

/// A clear gain of direct reads, with figures that came from the page cache to that share.
TuneReport clear_gain(bool is_cold, double page_cache_share) {
  TuneReport report;
  report.best = {.policy = CachePolicy::direct, .threads = 4};
  report.rows = {
      {.setting = {}, .samples_per_s = {100}},
      {.setting = report.best, .samples_per_s = {200}, .page_cache_share = page_cache_share}};
  report.verdict.is_clear = true;
  report.is_cold = is_cold;
  return report;
}

TEST(TuneOutcomeTest, a_clear_gain_is_recommended_and_luck_is_not) {
  TuneReport report = clear_gain(false, 0);
  EXPECT_EQ(recommend(report), report.best);
  report.verdict.is_clear = false;
  EXPECT_EQ(recommend(report), TuneSetting());
}

TEST(TuneOutcomeTest, figures_meant_to_be_cold_recommend_nothing_when_they_were_warm) {
  EXPECT_EQ(recommend(clear_gain(true, 0.05)), clear_gain(true, 0.05).best);
  EXPECT_FALSE(is_warm_after_all(clear_gain(true, 0.05)));
  EXPECT_EQ(recommend(clear_gain(true, 0.5)), TuneSetting());
  EXPECT_TRUE(is_warm_after_all(clear_gain(true, 0.5)));
  EXPECT_EQ(most_from_page_cache(clear_gain(true, 0.5)), 0.5);
}

TEST(TuneOutcomeTest, warm_figures_are_fine_where_nobody_asked_for_cold_ones) {
  EXPECT_EQ(recommend(clear_gain(false, 1)), clear_gain(false, 1).best);
  EXPECT_FALSE(is_warm_after_all(clear_gain(false, 1)));
}

}  // namespace
}  // namespace stoker::cli
