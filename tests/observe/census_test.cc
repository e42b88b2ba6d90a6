#include "observe/census.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "observe/fixture_machine.h"

namespace stoker {
namespace {

using testing::data_target;
using testing::expect_finding;
using testing::expect_well;
using testing::FixtureMachine;

void add_class_folders(FixtureMachine& machine, int folders, int files_each, std::uint64_t bytes) {
  for (int folder = 0; folder < folders; ++folder)
    for (int file = 0; file < files_each; ++file)
      machine.add_file(fmt::format("/data/train/n{:05}/{:06}.jpg", folder, file), bytes);
}

TEST(CensusTest, a_small_tree_is_counted_exactly) {
  FixtureMachine machine("ext4");
  machine.remove("/data/train-000000.tar").remove("/data/train-000001.tar");
  machine.add_file("/data/a", 10).add_file("/data/b/c", 20).add_file("/data/b/d/e", 60);
  const Census census = take_census(machine, "/data", {});
  EXPECT_TRUE(census.is_exact);
  EXPECT_EQ(census.file_count, 3U);
  EXPECT_EQ(census.size_median_bytes, 20U);
  EXPECT_EQ(census.size_average_bytes, 30U);
}

TEST(CensusTest, a_wide_tree_is_estimated_from_evenly_spaced_folders) {
  FixtureMachine machine("ext4");
  add_class_folders(machine, 200, 50, 1000);
  const CensusOptions options{.directories_per_level_max = 20, .sizes_per_directory_max = 5};
  const Census census = take_census(machine, "/data/train", options);
  EXPECT_FALSE(census.is_exact);
  EXPECT_EQ(census.file_count, 10'000U);
  EXPECT_EQ(census.size_median_bytes, 1000U);
}

/// As trees are: nearly all files are in a few of the folders.
TEST(CensusTest, a_thousand_uneven_folders_are_counted_exactly) {
  FixtureMachine machine("ext4");
  for (int folder = 0; folder < 1000; ++folder)
    for (int file = 0; file < (folder % 97 == 5 ? 300 : 1); ++file)
      machine.add_file(fmt::format("/data/train/{:04}/{:03}", folder, file), 1000);
  const Census census = take_census(machine, "/data/train", {});
  EXPECT_TRUE(census.is_exact);
  EXPECT_EQ(census.file_count, 11U * 300 + 989);
}

TEST(CensusTest, the_folder_that_holds_nearly_all_files_is_never_left_out) {
  FixtureMachine machine("ext4");
  add_class_folders(machine, 200, 1, 1000);
  for (int file = 0; file < 5000; ++file)
    machine.add_file(fmt::format("/data/train/n00077/more-{:04}", file), 1000);
  const Census census = take_census(machine, "/data/train", {.directories_per_level_max = 20});
  EXPECT_FALSE(census.is_exact);
  EXPECT_EQ(census.file_count, 5200U);
}

TEST(CensusTest, every_visit_gives_the_same_answer) {
  FixtureMachine machine("ext4");
  for (int i = 0; i < 500; ++i)
    machine.add_file(fmt::format("/data/{}/{}", i % 90, i), static_cast<std::uint64_t>(i) * 77);
  const CensusOptions options{.directories_per_level_max = 7, .sizes_per_directory_max = 3};
  const Census first = take_census(machine, "/data", options);
  const Census second = take_census(machine, "/data", options);
  EXPECT_EQ(first.file_count, second.file_count);
  EXPECT_EQ(first.size_median_bytes, second.size_median_bytes);
  EXPECT_EQ(first.size_average_bytes, second.size_average_bytes);
}

TEST(CensusTest, another_filesystem_below_is_not_entered) {
  FixtureMachine machine("ext4");
  machine.add_file("/data/mnt/far", 1).set_device("/data/mnt", 0, 99);
  EXPECT_EQ(take_census(machine, "/data", {}).file_count, 2U);
}

TEST(CensusTest, depth_is_bounded) {
  FixtureMachine machine("ext4");
  machine.add_file("/data/1/2/3/4/deep", 1);
  const Census census = take_census(machine, "/data", {.depth_max = 3});
  EXPECT_FALSE(census.is_exact);
  EXPECT_EQ(census.file_count, 2U);
}

TEST(CensusTest, a_directory_that_vanished_counts_as_empty) {
  FixtureMachine machine("ext4");
  EXPECT_EQ(take_census(machine, "/gone", {}).file_count, 0U);
}

TEST(CensusCheckTest, large_shards_are_well) {
  FixtureMachine machine("ext4");
  const Findings findings = check_census(machine, data_target(machine));
  expect_well(findings);
  EXPECT_EQ(findings[0].seen, "2 files, median 1 GiB, average 1 GiB");
}

TEST(CensusCheckTest, many_small_files_are_a_warning_for_datasets) {
  FixtureMachine machine("ext4");
  add_class_folders(machine, 40, 300, 110'000);
  const Finding finding = expect_finding(check_census(machine, data_target(machine)),
                                         Severity::warning, "/data: files", "12002 files");
  EXPECT_EQ(finding.fix, "stoker pack /data /data-shards");
  expect_finding(check_census(machine, data_target(machine, Role::checkpoint)), Severity::note,
                 "/data: files", "files");
}

TEST(CensusCheckTest, nobody_is_told_to_pack_a_root_or_what_the_kernel_makes_up) {
  FixtureMachine machine("ext4");
  add_class_folders(machine, 40, 300, 1000);
  Target target = data_target(machine);
  target.kind = FilesystemType::unknown;
  target.volume.blocks_total = 0;
  expect_well(check_census(machine, target));
  target = data_target(machine);
  target.path = "/";
  const Findings findings = check_census(machine, target);
  expect_well(findings);
  EXPECT_NE(findings[0].seen, "no files");
}

TEST(CensusCheckTest, many_large_files_and_few_small_ones_are_well) {
  FixtureMachine large("ext4");
  add_class_folders(large, 40, 300, 10'000'000);
  expect_well(check_census(large, data_target(large)));
  FixtureMachine small("ext4");
  add_class_folders(small, 10, 100, 1000);
  expect_well(check_census(small, data_target(small)));
}

TEST(CensusCheckTest, one_crowded_directory_is_a_note) {
  FixtureMachine machine("ext4");
  for (int i = 0; i < 100'000; ++i) machine.add_file(fmt::format("/data/all/{:06}", i), 1'000'000);
  const Finding finding = expect_finding(check_census(machine, data_target(machine)),
                                         Severity::note, "/data: files", "entries in /data/all");
  EXPECT_EQ(finding.fix, "stoker pack /data/all /data/all-shards");
}

TEST(CensusTest, what_is_named_like_shards_is_told_by_its_bytes) {
  FixtureMachine machine("ext4");  // with two tars of 1 GiB
  machine.add_file("/data/manifest.json", 1000).add_file("/data/.stoker/index", 5000);
  EXPECT_TRUE(take_census(machine, "/data", {}).is_shards());
  machine.add_file("/data/video.mp4", 8ULL << 30);
  EXPECT_FALSE(take_census(machine, "/data", {}).is_shards());
}

TEST(CensusCheckTest, a_directory_crowded_with_shards_is_to_be_converted_not_packed) {
  FixtureMachine machine("ext4");
  for (int i = 0; i < 100'000; ++i)
    machine.add_file(fmt::format("/data/all/{:06}.tar", i), 1'000'000);
  EXPECT_EQ(expect_finding(check_census(machine, data_target(machine)), Severity::note,
                           "/data: files", "entries in /data/all")
                .fix,
            "stoker convert --format tar /data/all /data/all-large");
}

TEST(CensusCheckTest, a_file_and_an_empty_directory_are_well) {
  FixtureMachine machine("ext4");
  const Result<Target> file = make_target(machine, "/data/train-000000.tar", Role::both);
  ASSERT_TRUE(file.ok());
  EXPECT_EQ(file->directory, "/data");
  Findings findings = check_census(machine, *file);
  expect_well(findings);
  EXPECT_EQ(findings[0].seen, "one file of 1 GiB");
  machine.remove("/data/train-000000.tar").remove("/data/train-000001.tar");
  findings = check_census(machine, data_target(machine));
  expect_well(findings);
  EXPECT_EQ(findings[0].seen, "no files");
}

TEST(SpaceTest, room_is_well_and_little_room_a_warning_and_none_a_problem) {
  FixtureMachine machine("ext4");
  expect_well(check_space(machine, data_target(machine)));
  machine.volume_at("/data").blocks_available = 10'000'000;  // 2 %
  expect_finding(check_space(machine, data_target(machine)), Severity::warning, "/data: space",
                 "38.1 GiB free of");
  expect_well(check_space(machine, data_target(machine, Role::dataset)));
  machine.volume_at("/data").blocks_available = 0;
  expect_finding(check_space(machine, data_target(machine)), Severity::problem, "/data: space",
                 "0 B free of");
}

TEST(SpaceTest, absurd_numbers_are_survived) {
  FixtureMachine machine("ext4");
  machine.volume_at("/data") = {.type_magic = 0xef53,
                                .block_bytes = UINT64_MAX,
                                .blocks_total = UINT64_MAX,
                                .blocks_available = UINT64_MAX,
                                .inodes_total = 0,
                                .inodes_free = UINT64_MAX};
  expect_well(check_space(machine, data_target(machine)));
  machine.volume_at("/data").blocks_total = 0;
  expect_well(check_space(machine, data_target(machine)));
  expect_well(check_inodes(machine, data_target(machine)));
}

TEST(InodesTest, room_is_well_and_little_room_a_warning_and_none_a_problem) {
  FixtureMachine machine("ext4");
  expect_well(check_inodes(machine, data_target(machine)));
  machine.volume_at("/data").inodes_free = 2'000'000;
  const Finding finding = expect_finding(check_inodes(machine, data_target(machine)),
                                         Severity::warning, "/data: inodes", "2000000 free of");
  EXPECT_NE(finding.fix.find("du --inodes -xS /data"), std::string::npos);
  machine.volume_at("/data").inodes_free = 0;
  expect_finding(check_inodes(machine, data_target(machine)), Severity::problem, "/data: inodes",
                 "0 free of");
}

TEST(InodesTest, a_filesystem_that_makes_them_on_demand_is_well) {
  FixtureMachine machine("btrfs");
  const Findings findings = check_inodes(machine, data_target(machine));
  expect_well(findings);
  EXPECT_EQ(findings[0].seen, "made on demand");
}

}  // namespace
}  // namespace stoker
