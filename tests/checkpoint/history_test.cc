#include "checkpoint/history.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "checkpoint/save_support.h"

namespace stoker {
namespace {

using testing::counted;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

std::uint64_t save(const std::string& directory, std::uint64_t step, float first,
                   std::optional<CheckpointParent> parent = {}) {
  CheckpointerOptions options = quiet_options(directory);
  options.parent = parent;
  const Result<std::unique_ptr<Checkpointer>> saver = Checkpointer::make(std::move(options));
  EXPECT_TRUE(saver.ok());
  const std::vector<OwnedTensor> tensors = {counted("w", 1000, first)};
  const Result<Pending> pending = (*saver)->save(request_of(step, tensors));
  EXPECT_TRUE(pending.ok()) << pending.status().message();
  if (!pending.ok()) return 0;
  EXPECT_TRUE(pending->wait().ok()) << pending->wait().message();
  return pending->generation();
}

/// As a bad block would: the manifest is there and says nothing.
void spoil(const std::string& step_directory, const std::string& with) {
  std::filesystem::remove(step_directory + "/manifest.json");
  std::ofstream(step_directory + "/manifest.json") << with;
}

TEST(HistoryTest, what_was_learned_of_a_checkpoint_does_not_stay_with_its_name) {
  const testing::TempDir dir;
  const std::uint64_t first = save(dir.path(), 10, 1);
  History history(posix_file_ops(), dir.path());
  ASSERT_TRUE(history.refresh().ok());
  ASSERT_EQ(history.find(10)->generation, first);
  // Somebody else gives the name to another checkpoint, and this one has not been told.
  const std::uint64_t second = save(dir.path(), 10, 2);
  ASSERT_GT(second, first);
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_EQ(history.find(10)->generation, second);
  EXPECT_EQ(history.greatest_generation(), second);
}

TEST(HistoryTest, a_generation_is_not_given_twice_because_its_manifest_is_gone) {
  const testing::TempDir dir;
  const std::uint64_t first = save(dir.path(), 10, 1);
  History history(posix_file_ops(), dir.path());
  ASSERT_TRUE(history.refresh().ok());
  spoil(dir.file("step-000000000010"), "no manifest");
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_EQ(history.find(10)->generation, 0U);
  EXPECT_EQ(history.greatest_generation(), first);
}

TEST(HistoryTest, checkpoints_that_cannot_be_read_are_put_away_side_by_side) {
  const testing::TempDir dir;
  const std::string step = dir.file("step-000000000010");
  for (const char* const damage : {"first", "second", "third"}) {
    ASSERT_GT(save(dir.path(), 10, 1), 0U);
    spoil(step, damage);
  }
  EXPECT_GT(save(dir.path(), 10, 4), 0U);
  testing::expect_whole(step);
  EXPECT_EQ(testing::contents_of(step + ".superseded-0/manifest.json"), "first");
  EXPECT_EQ(testing::contents_of(step + ".superseded-0-2/manifest.json"), "second");
  EXPECT_EQ(testing::contents_of(step + ".superseded-0-3/manifest.json"), "third");
  for (const char* const suffix : {"", "-2", "-3"})
    EXPECT_TRUE(
        std::filesystem::exists(step + ".superseded-0" + suffix + "/rank-00000.safetensors"));
}

TEST(HistoryTest, a_superseding_that_was_cut_short_is_taken_up_again) {
  const testing::TempDir dir;
  const std::uint64_t first = save(dir.path(), 10, 1);
  // As a cut after the second name was made and `latest` had moved to it.
  const std::string step = dir.file("step-000000000010");
  const std::string away = step + ".superseded-" + std::to_string(first);
  std::filesystem::create_directory(away);
  for (const char* const name : {"manifest.json", "rank-00000.safetensors"})
    std::filesystem::create_hard_link(step + "/" + name, away + "/" + name);
  std::filesystem::remove(dir.file("latest"));
  std::filesystem::create_symlink(std::filesystem::path(away).filename(), dir.file("latest"));
  EXPECT_GT(save(dir.path(), 10, 2), first);
  testing::expect_whole(step);
  testing::expect_whole(away);
  EXPECT_FALSE(std::filesystem::exists(away + "-2"));
}

}  // namespace
}  // namespace stoker
