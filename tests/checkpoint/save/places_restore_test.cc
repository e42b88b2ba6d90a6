// Nodes with private disks: a restore takes what all of them have.
#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/save/places.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::manifest_in;
using testing::opened;
using testing::PlacedRanks;
using testing::PlacesTest;
using Names = std::vector<std::string>;

TEST_F(PlacesTest, a_checkpoint_that_one_node_lacks_is_passed_over_and_saved_again) {
  for (const std::uint32_t lacks : {0U, 2U}) {
    PlacedRanks run;
    run.start();
    for (const std::uint64_t step : {1U, 2U})
      for (const Status& end : run.save(step)) ASSERT_TRUE(end.ok()) << end.message();
    run.end();
    fs::remove_all(run.step_directory(lacks, 2));
    run.point_latest(1);
    for (const auto& outcome : run.restore()) {
      ASSERT_FALSE(outcome.failure) << outcome.failure->report.status.message();
      EXPECT_EQ(outcome.choice.name, step_name(1));
      ASSERT_EQ(outcome.choice.passed_over.size(), 1U);
      const std::string_view reason = outcome.choice.passed_over[0].reason.message();
      EXPECT_NE(reason.find("rank " + std::to_string(lacks)), std::string::npos) << reason;
      EXPECT_NE(reason.find("whose newest is " + step_name(1)), std::string::npos) << reason;
    }
    run.start();
    for (const Status& end : run.save(2)) ASSERT_TRUE(end.ok()) << end.message();
    run.end();
    EXPECT_EQ(manifest_in(run.step_directory(0, 2)).generation, 3U);
    EXPECT_EQ(manifest_in(run.step_directory(0, 2)), manifest_in(run.step_directory(2, 2)));
    for (const auto& outcome : run.restore()) EXPECT_EQ(outcome.choice.name, step_name(2));
    EXPECT_TRUE(run.damages().empty());
  }
}

TEST_F(PlacesTest, a_partial_checkpoint_of_a_rewound_run_does_not_hide_the_newest_common_one) {
  run_.start();
  save_all({1, 2});
  run_.end();
  for (const auto& outcome : run_.restore(step_name(1))) ASSERT_FALSE(outcome.failure);
  run_.start();
  save_all({3});  // continues step 1
  run_.end();
  fs::remove_all(run_.step_directory(2, 3));
  run_.point_latest(2);
  for (const auto& outcome : run_.restore()) {
    ASSERT_FALSE(outcome.failure) << outcome.failure->report.status.message();
    EXPECT_EQ(outcome.choice.name, step_name(2));
    ASSERT_EQ(outcome.choice.passed_over.size(), 1U);
    EXPECT_EQ(outcome.choice.passed_over[0].name, step_name(3));
  }
}

TEST_F(PlacesTest, what_may_be_the_newest_common_one_is_known_on_one_node) {
  run_.start();
  save_all({1, 2, 3, 4});
  run_.end();
  run_.point_latest(2);  // after crashes before it moved
  const auto found = [](const CheckpointDirectory& directory) {
    return find_perhaps_common(directory, *list_checkpoints(directory));
  };
  EXPECT_EQ(found(opened(run_.directory(2))), (Names{step_name(4), step_name(3), step_name(2)}));
  const testing::TempDir all;
  auto saver = testing::make_saver(testing::quiet_options(all.path()));
  const std::vector<testing::OwnedTensor> tensors{testing::counted("w", 3, 1)};
  ASSERT_TRUE(saver->save(testing::request_of(1, tensors))->wait().ok());
  EXPECT_TRUE(found(opened(all.path())).empty());
}

TEST_F(PlacesTest, a_node_that_comes_back_with_an_old_disk_ends_the_restore) {
  for (const std::uint32_t lacks : {0U, 2U}) {
    PlacedRanks run;
    run.start();
    for (const std::uint64_t step : {1U, 2U})
      for (const Status& end : run.save(step)) ASSERT_TRUE(end.ok()) << end.message();
    run.end();
    const testing::TempDir kept;
    fs::copy(run.step_directory(lacks, 2), kept.path(), fs::copy_options::recursive);
    fs::remove_all(run.step_directory(lacks, 2));
    for (const auto& outcome : run.restore()) {
      ASSERT_TRUE(outcome.failure);
      const std::string_view message = outcome.failure->report.status.message();
      for (const std::string& part :
           {step_name(2) + " was on the disks of all nodes",
            "that of rank " + std::to_string(lacks), "whose newest is " + step_name(1)})
        EXPECT_NE(message.find(part), std::string::npos) << message;
    }
    // One that is damaged is skipped, as in a single directory.
    fs::create_directory(run.step_directory(lacks, 2));
    for (const auto& outcome : run.restore()) {
      ASSERT_FALSE(outcome.failure) << outcome.failure->report.status.message();
      EXPECT_EQ(outcome.choice.name, step_name(1));
    }
    fs::remove_all(run.step_directory(lacks, 2));
    for (const auto& outcome : run.restore(step_name(1))) EXPECT_FALSE(outcome.failure);
    fs::copy(kept.path(), run.step_directory(lacks, 2), fs::copy_options::recursive);
    for (const auto& outcome : run.restore()) EXPECT_EQ(outcome.choice.name, step_name(2));
  }
}

TEST_F(PlacesTest, a_node_with_an_empty_disk_ends_the_restore) {
  for (const std::uint32_t lacks : {0U, 2U}) {
    PlacedRanks run;
    run.start();
    for (const Status& end : run.save(1)) ASSERT_TRUE(end.ok()) << end.message();
    run.end();
    fs::remove_all(run.step_directory(lacks, 1));
    for (const auto& outcome : run.restore()) {
      ASSERT_TRUE(outcome.failure);
      const std::string_view message = outcome.failure->report.status.message();
      EXPECT_NE(message.find("rank " + std::to_string(lacks)), std::string::npos) << message;
    }
  }
  for (const auto& outcome : run_.restore()) {  // nobody has anything: a first start
    EXPECT_FALSE(outcome.failure);
    EXPECT_TRUE(outcome.choice.name.empty());
  }
}

TEST_F(PlacesTest, a_node_with_an_empty_disk_ends_the_restore_if_all_else_is_damaged) {
  for (const std::uint32_t lacks : {0U, 2U}) {
    PlacedRanks run;
    run.start();
    for (const Status& end : run.save(1)) ASSERT_TRUE(end.ok()) << end.message();
    run.end();
    fs::remove_all(run.step_directory(lacks, 1));
    fs::remove(run.step_directory(2 - lacks, 1) + "/manifest.json");
    for (const auto& outcome : run.restore()) {
      ASSERT_TRUE(outcome.failure) << "it starts over";
      const std::string_view message = outcome.failure->report.status.message();
      EXPECT_NE(message.find(step_name(1)), std::string::npos) << message;
    }
  }
}

}  // namespace
}  // namespace stoker
