// Nodes with private disks: one rank dies at each crash point, and all start again.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/place_ranks.h"
#include "support/hooked_file_ops.h"

namespace stoker {
namespace {

using testing::PlacedRanks;

/// FileOps of a process that ends at a crash point: nothing reaches the disk from then on.
class MortalFileOps final : public testing::HookedFileOps {
 public:
  MortalFileOps()
      : HookedFileOps(posix_file_ops(), [this](std::string_view op, const PathAt*) {
          return is_dead_ ? Status::from_errno(EIO, op, "") : Status();
        }) {}

  void reached(std::string_view crash_point) override {
    const std::lock_guard lock(mutex_);
    if (!is_watching_) return;
    seen_.insert(std::string(crash_point));
    if (crash_point == at_ && !is_dead_.exchange(true)) die_();
  }
  /// From now on notes crash points, and dies at `at`.
  void watch(std::string at, std::function<void()> die) {
    const std::lock_guard lock(mutex_);
    is_watching_ = true;
    at_ = std::move(at);
    die_ = std::move(die);
  }
  std::set<std::string> seen() const {
    const std::lock_guard lock(mutex_);
    return seen_;
  }
  bool is_dead() const { return is_dead_; }

 private:
  std::atomic<bool> is_dead_ = false;
  mutable std::mutex mutex_;
  bool is_watching_ = false;
  std::string at_;
  std::function<void()> die_;
  std::set<std::string> seen_;
};

/// Saves step 1 and 2, and has `victim` die at a crash point of the third save. Returns the crash
/// points that it has passed.
std::set<std::string> crash(std::uint32_t victim, const std::string& at) {
  PlacedRanks run;
  MortalFileOps ops;
  const auto keep_two = [&](std::uint32_t rank, SaverOptions& options) {
    options.retention.keep_last = 2;
    if (rank == victim) options.ops = &ops;
  };
  run.start(keep_two);
  for (const std::uint64_t step : {1U, 2U})
    for (const Status& end : run.save(step)) EXPECT_TRUE(end.ok()) << end.message();
  ops.watch(at, [&] { run.silence(victim); });
  static_cast<void>(run.save(3));
  EXPECT_EQ(ops.is_dead(), !at.empty());
  const bool is_acknowledged = run.is_acknowledged_anywhere();
  run.end();
  run.speak_again();

  const auto outcomes = run.restore();
  for (const auto& outcome : outcomes) {
    EXPECT_FALSE(outcome.failure) << outcome.failure->report.status.message();
    EXPECT_EQ(outcome.choice.name, outcomes[0].choice.name);
  }
  const std::uint64_t restored = run.restored()[0];
  EXPECT_EQ(run.restored(), std::vector<std::uint64_t>(PlacedRanks::kRanks, restored));
  EXPECT_GE(restored, is_acknowledged ? 3U : 2U);
  EXPECT_TRUE(run.damages().empty());

  // The run continues, with the step that may be on some nodes only, and then another.
  run.start([](std::uint32_t, SaverOptions& options) { options.retention.keep_last = 2; });
  for (std::uint64_t step = restored + 1; step <= 5; ++step)
    for (const Status& end : run.save(step)) EXPECT_TRUE(end.ok()) << end.message();
  run.end();
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(run.steps(rank), (std::vector<std::string>{step_name(4), step_name(5)}));
  EXPECT_TRUE(run.damages().empty());
  for (const auto& outcome : run.restore()) EXPECT_EQ(outcome.choice.name, step_name(5));
  return ops.seen();
}

class PlacesCrashTest : public ::testing::TestWithParam<std::uint32_t> {};

TEST_P(PlacesCrashTest, all_nodes_restore_the_same_and_nothing_acknowledged_is_lost) {
  const std::set<std::string> points = crash(GetParam(), "");
  const bool leads = GetParam() != 3;
  for (const char* needed : {"checkpoint.staged_dir", "checkpoint.staging_synced"})
    EXPECT_TRUE(points.contains(needed)) << needed;
  for (const char* needed :
       {"checkpoint.place_named", "checkpoint.all_sealed", "checkpoint.renamed",
        "checkpoint.all_durable", "checkpoint.latest_moved", "retention.retired"})
    EXPECT_EQ(points.contains(needed), leads) << needed;
  for (const std::string& point : points) {
    SCOPED_TRACE("rank " + std::to_string(GetParam()) + " dies at " + point);
    crash(GetParam(), point);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PlacesCrashTest, ::testing::Values(0U, 2U, 3U));

}  // namespace
}  // namespace stoker
