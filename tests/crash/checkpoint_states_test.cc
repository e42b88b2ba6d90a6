// Power cuts at every operation of every scenario: ten thousand states that differ, each held
// against the oracle once.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "crash/crash_scenarios.h"

namespace stoker::testing {
namespace {

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kIsSlow = true;  // ten times; the same code runs over fewer states
#else
constexpr bool kIsSlow = false;
#endif

/// What the project promises to have looked at.
constexpr std::size_t kTreesMin = kIsSlow ? 1'000 : 10'000;

CutOptions cuts_of(const CrashScenario& scenario) {
  if (kIsSlow) return {.exhaustive_max = 16, .single_max = 2, .random_count = 1};
  if (std::getenv("STOKER_CRASH_CUTS") == nullptr) {  // not `make crash`
    if (scenario.is_broad) return {.exhaustive_max = 16, .single_max = 2, .random_count = 2};
    return {.exhaustive_max = 24, .single_max = 4, .random_count = 2};
  }
  if (scenario.is_broad) return {.exhaustive_max = 24, .single_max = 2, .random_count = 4};
  return {.exhaustive_max = 48, .single_max = 10, .random_count = 8};
}

TEST(CheckpointStatesTest, ten_thousand_different_states_after_a_cut_keep_every_promise) {
  SeenStates seen;
  std::size_t state_count = 0;
  for (const CrashScenario& scenario : crash_scenarios()) {
    const SweepReport report = for_each_cut(
        [&](CutRun& run) { scenario.workload(run, run.disk()); }, checkpoints_and_notes_hold,
        {.cut = cuts_of(scenario), .start = scenario.start, .seen = &seen});
    EXPECT_EQ(report.violation_count, 0U) << scenario.name << ": " << report.text();
    std::printf("%-30s %s\n", scenario.name.c_str(), report.text().c_str());
    std::fflush(stdout);
    state_count += report.state_count;
  }
  std::printf("%-30s %zu states, %zu distinct, %zu checked\n", "all", state_count,
              seen.tree_count(), seen.checked_count());
  RecordProperty("states", std::to_string(state_count));
  RecordProperty("distinct", std::to_string(seen.tree_count()));
  RecordProperty("checked", std::to_string(seen.checked_count()));
  EXPECT_GE(seen.tree_count(), kTreesMin);
}

}  // namespace
}  // namespace stoker::testing
