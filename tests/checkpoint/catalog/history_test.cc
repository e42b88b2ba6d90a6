#include "checkpoint/catalog/history.h"

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <fstream>

#include "checkpoint/save_support.h"
#include "io/files/forwarding_file_ops.h"

namespace stoker {
namespace {

using testing::counted;
using testing::opened;
using testing::OwnedTensor;
using testing::quiet_options;
using testing::request_of;

std::uint64_t save(const std::string& directory, std::uint64_t step, float first,
                   std::optional<CheckpointParent> parent = {}) {
  SaverOptions options = quiet_options(directory);
  options.parent = parent;
  const Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
  EXPECT_TRUE(saver.ok());
  const std::vector<OwnedTensor> tensors = {counted("w", 1000, first)};
  const Result<PendingSave> pending = (*saver)->save(request_of(step, tensors));
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
  History history(opened(dir.path()));
  ASSERT_TRUE(history.refresh().ok());
  ASSERT_EQ(history.find(10)->generation, first);
  // Somebody else gives the name to another checkpoint, and this one has not been told.
  const std::uint64_t second = save(dir.path(), 10, 2);
  ASSERT_GT(second, first);
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_EQ(history.find(10)->generation, second);
  EXPECT_EQ(history.greatest_generation(), second);
}

TEST(HistoryTest, what_is_added_is_as_if_it_had_been_listed) {
  const testing::TempDir dir;
  save(dir.path(), 10, 1);
  History history(opened(dir.path()));
  ASSERT_TRUE(history.refresh().ok());
  const std::uint64_t second = save(dir.path(), 20, 2);
  CatalogLine line{.name = "step-000000000020",
                   .summary = summarize(testing::manifest_in(dir.file("step-000000000020")))};
  ASSERT_TRUE(history.add(line).ok());
  EXPECT_EQ(history.greatest_generation(), second);
  EXPECT_EQ(history.catalog().latest, line.name);
  EXPECT_EQ(history.catalog().newest()->name, line.name);
  EXPECT_EQ(*history.catalog().newest()->summary,
            *list_checkpoints(opened(dir.path()))->newest()->summary);
  EXPECT_EQ(history.catalog().steps.size(), 2U);
  // A step that was saved again: the old one has another name.
  const std::uint64_t third = save(dir.path(), 10, 3);
  line = {.name = "step-000000000010",
          .summary = summarize(testing::manifest_in(dir.file("step-000000000010")))};
  ASSERT_TRUE(history.add(line).ok());
  EXPECT_EQ(history.find(10)->generation, third);
  EXPECT_EQ(history.catalog().steps.size(), 3U);
}

TEST(HistoryTest, a_save_that_removes_nothing_looks_at_no_manifest_but_its_own) {
  class CountingFileOps final : public ForwardingFileOps {
   public:
    CountingFileOps() : ForwardingFileOps(posix_file_ops()) {}
    Result<FileInfo> info_of(const PathAt& path) override {
      count += path.last() == kManifestName ? 1 : 0;
      return ForwardingFileOps::info_of(path);
    }
    std::atomic<int> count = 0;
  } ops;
  const testing::TempDir dir;
  SaverOptions options = quiet_options(dir.path());
  options.ops = &ops;
  options.retention = {.keep_last = 3};
  const Result<std::unique_ptr<CheckpointSaver>> saver = CheckpointSaver::make(std::move(options));
  ASSERT_TRUE(saver.ok());
  const std::vector<OwnedTensor> tensors = {counted("w", 1000, 1)};
  for (const std::uint64_t step : {1U, 2U, 3U}) {
    ops.count = 0;
    const Result<PendingSave> pending = (*saver)->save(request_of(step, tensors));
    ASSERT_TRUE(pending.ok()) << pending.status().message();
    ASSERT_TRUE(pending->wait().ok()) << pending->wait().message();
    if (step > 1) {
      EXPECT_EQ(ops.count, 2) << "when it was listed first, and when it was committed";
    }
  }
}

TEST(HistoryTest, a_generation_is_not_given_twice_because_its_manifest_is_gone) {
  const testing::TempDir dir;
  const std::uint64_t first = save(dir.path(), 10, 1);
  History history(opened(dir.path()));
  ASSERT_TRUE(history.refresh().ok());
  spoil(dir.file("step-000000000010"), "no manifest");
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_EQ(history.greatest_generation(), first);
}

TEST(HistoryTest, the_catalog_tells_the_generation_of_what_is_damaged) {
  const testing::TempDir dir;
  save(dir.path(), 10, 1);
  const std::uint64_t second = save(dir.path(), 20, 1);
  spoil(dir.file("step-000000000020"), "no manifest");
  History history(opened(dir.path()));  // of a process that has seen nothing of it
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_EQ(history.greatest_generation(), second);
}

TEST(HistoryTest, equal_generations_of_two_lines_are_two_checkpoints) {
  const testing::TempDir one;
  const testing::TempDir two;
  for (const std::uint64_t step : {10U, 20U, 30U}) save(one.path(), step, 1);
  save(two.path(), 10, 1);
  std::filesystem::copy(one.file("step-000000000020"), two.file("step-000000000020"));
  History history(opened(two.path()));
  ASSERT_TRUE(history.refresh().ok());
  const std::string line = testing::manifest_in(two.file("step-000000000010")).line;
  const CheckpointParent head{.step = 20, .generation = 2, .line = line};
  EXPECT_FALSE(history.is_ancestor(*history.find(20), head));
  EXPECT_EQ(history.lineage_after(head), (Lineage{{line, 2, 2}}));
}

TEST(HistoryTest, what_is_continued_is_known_after_retention_has_removed_what_lay_between) {
  const testing::TempDir dir;
  std::optional<CheckpointParent> head;
  for (const std::uint64_t step : {100U, 110U, 120U, 130U})
    head = CheckpointParent{.step = step, .generation = save(dir.path(), step, 1, head)};
  const CheckpointParent branch{.step = 110, .generation = 2};
  head = CheckpointParent{.step = 125, .generation = save(dir.path(), 125, 1, branch)};
  const auto line = [&](std::uint64_t step) {
    return testing::manifest_in(dir.file(step_name(step))).line;
  };
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000125")).lineage,
            (Lineage{{line(100), 1, 1}, {line(110), 2, 2}}));
  head = CheckpointParent{.step = 140, .generation = save(dir.path(), 140, 1, head)};
  EXPECT_EQ(testing::manifest_in(dir.file("step-000000000140")).lineage,
            (Lineage{{line(100), 1, 1}, {line(110), 2, 2}, {line(125), 5, 5}}));
  for (const char* const gone : {"step-000000000110", "step-000000000125"})
    std::filesystem::remove_all(dir.file(gone));
  History history(opened(dir.path()));  // of a process that has seen nothing of it
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_TRUE(history.is_ancestor(*history.find(100), head));
  EXPECT_TRUE(history.is_ancestor(*history.find(140), head));
  EXPECT_FALSE(history.is_ancestor(*history.find(120), head)) << "of the run that was rewound";
  EXPECT_FALSE(history.is_ancestor(*history.find(130), head));
}

TEST(HistoryTest, a_run_remembers_where_something_that_is_still_there_has_left_it) {
  const testing::TempDir dir;
  const std::uint64_t first = save(dir.path(), 10, 1);
  const std::string line = testing::manifest_in(dir.file(step_name(10))).line;
  const CheckpointParent root{.step = 10, .generation = first};
  save(dir.path(), 30, 1, root);  // abandoned by going back
  CheckpointParent head{.step = 20, .generation = save(dir.path(), 20, 1, root)};
  head = {.step = 40, .generation = save(dir.path(), 40, 1, head)};
  std::filesystem::remove_all(dir.file(step_name(10)));
  std::filesystem::remove_all(dir.file(step_name(20)));
  History history(opened(dir.path()));
  ASSERT_TRUE(history.refresh().ok());
  const Lineage lineage = history.lineage_after(head);
  ASSERT_EQ(lineage.size(), 2U) << "20 is gone, and nothing has left the run there";
  EXPECT_EQ(lineage[0], (GenerationRange{line, first, first}));
  std::filesystem::remove_all(dir.file(step_name(30)));
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_EQ(history.lineage_after(head).size(), 1U);
}

TEST(HistoryTest, manifests_without_a_lineage_are_followed_by_their_parents) {
  const testing::TempDir dir;
  std::optional<CheckpointParent> head;
  for (const std::uint64_t step : {1U, 2U, 3U})
    head = CheckpointParent{.step = step, .generation = save(dir.path(), step, 1, head)};
  for (const char* const name : {"step-000000000002", "step-000000000003"}) {
    CheckpointManifest manifest = testing::manifest_in(dir.file(name));
    manifest.lineage.clear();  // as 0.1 has written it: no lines either
    manifest.line.clear();
    manifest.parent->line.clear();
    spoil(dir.file(name), format_checkpoint_manifest(manifest));
  }
  History history(opened(dir.path()));
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_TRUE(history.is_ancestor(*history.find(1), head));
  EXPECT_EQ(history.lineage_after(head),
            (Lineage{{history.find(1)->summary->line, 1, 1}, {"", 2, 3}}));
  std::filesystem::remove_all(dir.file("step-000000000002"));
  ASSERT_TRUE(history.refresh().ok());
  EXPECT_TRUE(history.is_ancestor(*history.find(1), head)) << "this process has seen it";
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
