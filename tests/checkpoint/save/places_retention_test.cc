// Nodes with private disks: the rules and notes of all decide which checkpoints stay, on all.
#include <gtest/gtest.h>

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "checkpoint/catalog/notes.h"
#include "checkpoint/save/places.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::opened;
using testing::PlacedRanks;
using testing::PlaceFaultTest;
using testing::PlacesTest;
using Names = std::vector<std::string>;

TEST_F(PlacesTest, retention_keeps_the_same_on_all_nodes) {
  const auto keep_two = [](std::uint32_t, SaverOptions& options) {
    options.retention.keep_last = 2;
  };
  run_.start(keep_two);
  save_all({1, 2, 3, 4});
  run_.end();
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(run_.steps(rank), (Names{step_name(3), step_name(4)}));
  // A crash between the nodes' renames has left step 5 on one of them.
  expect_restored(4);
  run_.start();
  save_all({5});
  run_.end();
  fs::remove_all(run_.step_directory(0, 5));
  run_.point_latest(4);
  expect_restored(4);
  run_.start(keep_two);
  save_all({6});
  run_.end();
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(run_.steps(rank), (Names{step_name(4), step_name(6)}));
}

TEST_F(PlacesTest, a_pin_on_one_node_keeps_the_checkpoint_on_all) {
  const auto keep_one = [](std::uint32_t, SaverOptions& options) {
    options.retention.keep_last = 1;
  };
  run_.start(keep_one);
  save_all({1});
  ASSERT_TRUE(pin_checkpoint(opened(run_.directory(2)), 1, 1, true).ok());
  save_all({2, 3});
  run_.end();
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(run_.steps(rank), (Names{step_name(1), step_name(3)}));
}

TEST_F(PlacesTest, what_one_node_has_lost_the_others_keep_by_their_rules) {
  const auto keep_three = [](std::uint32_t, SaverOptions& options) {
    options.retention.keep_last = 3;
  };
  run_.start(keep_three);
  save_all({1, 2, 3});
  for (const std::uint64_t step : {1U, 2U, 3U}) fs::remove_all(run_.step_directory(2, step));
  save_all({4});
  EXPECT_EQ(run_.steps(0), (Names{step_name(2), step_name(3), step_name(4)}));
  EXPECT_EQ(run_.steps(2), Names{step_name(4)});
  run_.end();
}

TEST_F(PlacesTest, the_notes_of_any_node_decide_for_all) {
  const auto keep_best = [](std::uint32_t, SaverOptions& options) {
    options.retention.keep_best = KeepBest{.metric = "loss"};
  };
  for (const std::uint32_t annotated : {0U, 2U}) {
    PlacedRanks run;
    run.start(keep_best);
    const auto save = [&](std::uint64_t step) {
      for (const Status& end : run.save(step)) ASSERT_TRUE(end.ok()) << end.message();
    };
    for (const std::uint64_t step : {1U, 2U, 3U}) save(step);
    for (const std::uint64_t step : {1U, 2U, 3U})
      ASSERT_TRUE(annotate_checkpoint(opened(run.directory(annotated)), step, step,
                                      {{"loss", step == 2 ? 0.5 : 1.0}})
                      .ok());
    save(4);
    run.end();
    for (const std::uint32_t rank : {0U, 2U})
      EXPECT_EQ(run.steps(rank), (Names{step_name(2), step_name(4)}));
  }
}

TEST_F(PlacesTest, rules_that_only_one_node_has_remove_nothing) {
  for (const std::uint32_t with_rules : {0U, 2U}) {
    PlacedRanks run;
    run.start([&](std::uint32_t rank, SaverOptions& options) {
      if (rank == with_rules) options.retention.keep_last = 1;
    });
    for (const std::uint64_t step : {1U, 2U})
      for (const Status& end : run.save(step))
        EXPECT_NE(end.message().find("must be the same on all ranks"), std::string::npos);
    EXPECT_TRUE(run.is_acknowledged_anywhere());
    run.end();
    for (const std::uint32_t rank : {0U, 2U})
      EXPECT_EQ(run.steps(rank), (Names{step_name(1), step_name(2)}));
  }
}

TEST_F(PlaceFaultTest, notes_that_one_node_cannot_list_cost_no_save) {
  PlacedRanks::Change change = breaking(2, "list_names", "notes", EIO);
  run_.start([&](std::uint32_t rank, SaverOptions& options) {
    change(rank, options);
    options.retention.keep_last = 1;
  });
  save_all({1});
  is_broken_ = true;
  for (const Status& end : run_.save(2))
    EXPECT_NE(end.message().find("it is committed, but retention failed: rank 2"),
              std::string::npos)
        << end.message();
  is_broken_ = false;
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(run_.steps(rank), (Names{step_name(1), step_name(2)}));
  save_all({3});
  run_.end();
  for (const std::uint32_t rank : {0U, 2U}) EXPECT_EQ(run_.steps(rank), Names{step_name(3)});
}

/// Pins the first checkpoint on the node of rank 2 while that is publishing another one.
class PinningFileOps final : public testing::HookedFileOps {
 public:
  explicit PinningFileOps(std::string directory)
      : HookedFileOps(posix_file_ops(), [](std::string_view, const PathAt*) { return Status(); }),
        directory_(std::move(directory)) {}
  void reached(std::string_view crash_point) override {
    if (crash_point != "checkpoint.renamed" || ++count_ != 2) return;
    EXPECT_TRUE(pin_checkpoint(opened(directory_), 1, 1, true).ok());
  }

 private:
  const std::string directory_;
  int count_ = 0;  // on the writer's thread
};

TEST_F(PlacesTest, a_pin_set_during_a_save_keeps_the_checkpoint_on_all_nodes) {
  PinningFileOps ops(run_.directory(2));
  run_.start([&](std::uint32_t rank, SaverOptions& options) {
    options.retention.keep_last = 1;
    if (rank == 2) options.ops = &ops;
  });
  save_all({1, 2});
  run_.end();
  for (const std::uint32_t rank : {0U, 2U})
    EXPECT_EQ(run_.steps(rank), (Names{step_name(1), step_name(2)}));
}

}  // namespace
}  // namespace stoker
