// Nodes with private disks: every node commits the same manifest, or none does.
#include "checkpoint/save/places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "support/stuck_engine.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::manifest_in;
using testing::opened;
using testing::PlacedRanks;
using testing::PlaceFaultTest;
using testing::PlacesTest;
using Names = std::vector<std::string>;

TEST_F(PlacesTest, every_node_has_the_same_manifest_and_its_own_files) {
  run_.start();
  save_all({1, 2});
  run_.end();
  const std::string text = testing::contents_of(run_.step_directory(0, 2) + "/manifest.json");
  EXPECT_EQ(text, testing::contents_of(run_.step_directory(2, 2) + "/manifest.json"));
  EXPECT_EQ(files_of(0, 2),
            (std::set<std::string>{"manifest.json", "place-00000", "rank-00000.safetensors",
                                   "rank-00001.safetensors"}));
  EXPECT_EQ(files_of(2, 2),
            (std::set<std::string>{"manifest.json", "place-00001", "rank-00002.safetensors",
                                   "rank-00003.safetensors"}));
  const CheckpointManifest manifest = manifest_in(run_.step_directory(2, 2));
  ASSERT_EQ(manifest.places.size(), 2U);
  EXPECT_EQ(manifest.places[1].ranks, (std::vector<std::uint32_t>{2, 3}));
  ASSERT_EQ(manifest.duplicates.size(), 1U);  // once on each node
  EXPECT_EQ(manifest.duplicates[0].name, "same");
  EXPECT_TRUE(run_.damages().empty());
  expect_restored(2);
}

TEST_F(PlacesTest, verify_tells_what_is_elsewhere_and_what_is_missing) {
  run_.start();
  save_all({1});
  run_.end();
  const auto verified = [&] { return *verify_checkpoints(opened(run_.directory(2)), {}); };
  EXPECT_EQ(verified().elsewhere_count, 2U);
  EXPECT_TRUE(verified().damages.empty());
  fs::remove(run_.step_directory(2, 1) + "/rank-00003.safetensors");
  ASSERT_EQ(verified().damages.size(), 1U);
  EXPECT_EQ(verified().damages[0].file, "rank-00003.safetensors");
  for (const auto& outcome : run_.restore()) {
    ASSERT_TRUE(outcome.failure);
    EXPECT_TRUE(is_damage(outcome.failure->report.status));
  }
}

TEST_F(PlacesTest, without_the_name_of_its_place_a_checkpoint_is_damaged) {
  run_.start();
  save_all({1});
  run_.end();
  fs::remove(run_.step_directory(2, 1) + "/place-00001");
  const Result<CheckpointVerifyReport> report = verify_checkpoints(opened(run_.directory(2)), {});
  ASSERT_TRUE(report.ok());
  EXPECT_FALSE(report->damages.empty());
  const Result<CheckpointReader> reader =
      CheckpointReader::open(opened(run_.directory(2)), step_name(1), {});
  EXPECT_EQ(reader.status().code(), Code::corrupt);
}

TEST_F(PlacesTest, directories_copied_together_are_an_ordinary_checkpoint) {
  run_.start();
  save_all({1});
  run_.end();
  const testing::TempDir all;
  for (const std::uint32_t rank : {0U, 2U})
    fs::copy(run_.step_directory(rank, 1), all.file(step_name(1)),
             fs::copy_options::recursive | fs::copy_options::overwrite_existing);
  const Result<CheckpointVerifyReport> report = verify_checkpoints(opened(all.path()), {});
  ASSERT_TRUE(report.ok());
  EXPECT_TRUE(report->damages.empty());
  EXPECT_EQ(report->elsewhere_count, 0U);
  const Result<CheckpointReader> reader =
      CheckpointReader::open(opened(all.path()), step_name(1), {});
  ASSERT_TRUE(reader.ok());
  for (std::uint32_t rank = 0; rank < PlacedRanks::kRanks; ++rank)
    EXPECT_TRUE(PlacedRanks::read_back(*reader, rank).ok());
}

TEST_F(PlacesTest, bytes_of_another_node_are_refused_with_its_ranks) {
  run_.start();
  save_all({1});
  run_.end();
  const Result<CheckpointReader> reader =
      CheckpointReader::open(opened(run_.directory(0)), step_name(1), {});
  ASSERT_TRUE(reader.ok());
  std::vector<float> values(16);
  const Status read =
      reader->read({.name = "cut", .memory = std::as_writable_bytes(std::span(values))});
  EXPECT_EQ(read.code(), Code::unsupported);
  EXPECT_NE(read.message().find("(ranks 2, 3)"), std::string::npos) << read.message();
  EXPECT_NE(read.message().find("into one"), std::string::npos) << read.message();
}
// The deadline ends a wait for a rank that has left, with another message.
TEST_F(PlacesTest, a_rank_that_misses_a_message_tells_the_others_at_once) {
  struct Case {
    std::uint32_t rank;
    std::string key;
    SaveOutcome outcome;
  };
  for (const Case& one :
       {Case{0, "manifest-", SaveOutcome::failed}, Case{2, "manifest-", SaveOutcome::failed},
        Case{3, "manifest-", SaveOutcome::failed}, Case{0, "sealed-", SaveOutcome::unknown},
        Case{2, "sealed-", SaveOutcome::unknown}, Case{3, "sealed-", SaveOutcome::unknown}}) {
    SCOPED_TRACE("rank " + std::to_string(one.rank) + " misses " + one.key);
    PlacedRanks run;
    run.start();
    for (const Status& end : run.save(1)) ASSERT_TRUE(end.ok()) << end.message();
    run.end();
    run.break_broadcasts(one.rank, one.key);
    run.start();
    for (const Status& end : run.save(2))
      EXPECT_NE(end.message().find("the broadcast of " + one.key), std::string::npos)
          << end.message();
    EXPECT_EQ(run.outcomes(),
              std::vector<std::optional<SaveOutcome>>(PlacedRanks::kRanks, one.outcome));
    run.end();
    run.break_broadcasts(0, "");
    EXPECT_TRUE(run.damages().empty());
    const bool is_everywhere = one.rank == 3 && one.outcome == SaveOutcome::unknown;
    for (const auto& outcome : run.restore())
      EXPECT_EQ(outcome.choice.name, step_name(is_everywhere ? 2 : 1));
  }
}

TEST_F(PlaceFaultTest, a_node_that_cannot_seal_fails_the_save_on_all) {
  const std::vector<std::pair<std::string, std::string>> faults = {
      {"open", "rank-00003.safetensors"}, {"open", "manifest.json"}, {"open", "place-00001"}};
  for (const auto& [op, part] : faults) {
    for (const std::uint32_t rank : {2U, 3U}) {
      if (rank == 3 && part != "rank-00003.safetensors") continue;
      if (rank == 2 && part == "rank-00003.safetensors") continue;
      PlacedRanks run;
      run.start(breaking(rank, op, part, ENOSPC));
      for (const Status& end : run.save(1)) ASSERT_TRUE(end.ok()) << end.message();
      is_broken_ = true;
      for (const Status& end : run.save(2)) {
        EXPECT_EQ(end.code(), Code::no_space) << part << ": " << end.message();
        EXPECT_NE(end.message().find("rank " + std::to_string(rank)), std::string::npos)
            << end.message();
      }
      is_broken_ = false;
      for (const std::uint32_t one : {0U, 2U}) EXPECT_EQ(run.steps(one), Names{step_name(1)});
      for (const Status& end : run.save(3)) EXPECT_TRUE(end.ok()) << end.message();
      run.end();
      EXPECT_TRUE(run.damages().empty());
      for (const auto& outcome : run.restore()) EXPECT_EQ(outcome.choice.name, step_name(3));
    }
  }
}

TEST_F(PlacesTest, a_node_without_room_refuses_the_save_on_all_before_anything_is_written) {
  std::atomic<std::uint64_t> free_bytes = 1'000'000;
  run_.start([&](std::uint32_t rank, SaverOptions& options) {
    if (rank < 2) return;
    options.free_bytes = [&](const std::string&) -> Result<std::uint64_t> { return +free_bytes; };
  });
  save_all({1});
  free_bytes = 8'000;  // each rank needs a little more than 4 KiB
  for (const Status& end : run_.save(2)) {
    EXPECT_EQ(end.code(), Code::no_space) << end.message();
    EXPECT_NE(end.message().find(run_.directory(0) + " on "), std::string::npos) << end.message();
    EXPECT_NE(end.message().find("than is free: 8000 bytes. Remove old"), std::string::npos)
        << end.message();
  }
  EXPECT_EQ(run_.outcomes(), std::vector<std::optional<SaveOutcome>>(PlacedRanks::kRanks));
  free_bytes = 1'000'000;
  save_all({2});
  run_.end();
  expect_restored(2);
}

TEST_F(PlacesTest, a_node_that_is_still_removing_a_checkpoint_is_waited_for) {
  testing::StuckDevice removal;
  testing::HookedFileOps ops(posix_file_ops(), [&](std::string_view called, const PathAt* path) {
    if (called == "unlink" && path->text().find("/remove-") != std::string::npos)
      removal.await(std::chrono::seconds(60));
    return Status();
  });
  const auto is_removing = [&] {
    return std::ranges::any_of(fs::recursive_directory_iterator(run_.directory(2)),
                               [](const fs::directory_entry& entry) {
                                 return entry.path().filename().string().starts_with("remove-");
                               });
  };
  run_.start([&](std::uint32_t rank, SaverOptions& options) {
    options.retention.keep_last = 1;
    if (rank != 2) return;
    options.ops = &ops;
    options.free_bytes = [&](const std::string&) -> Result<std::uint64_t> {
      if (!is_removing()) return std::uint64_t{1'000'000};
      removal.come_back();
      return std::uint64_t{0};
    };
  });
  for (const std::uint64_t step : {1U, 2U, 3U})
    for (const Status& end : run_.save(step, false)) EXPECT_TRUE(end.ok()) << end.message();
  removal.come_back();
  run_.end();
  expect_restored(3);
}

TEST_F(PlaceFaultTest, a_node_that_cannot_publish_leaves_the_previous_checkpoint) {
  for (const std::uint32_t rank : {0U, 2U}) {
    PlacedRanks run;
    run.start(breaking(rank, "rename_noreplace", step_name(2), EIO));
    for (const Status& end : run.save(1)) ASSERT_TRUE(end.ok()) << end.message();
    is_broken_ = true;
    for (const Status& end : run.save(2)) {
      EXPECT_FALSE(end.ok());
      EXPECT_NE(end.message().find("on some nodes only"), std::string::npos) << end.message();
    }
    EXPECT_FALSE(run.is_acknowledged_anywhere());
    is_broken_ = false;
    const auto latest = opened(run.directory(2 - rank)).read_latest();
    ASSERT_TRUE(latest.ok());
    EXPECT_EQ(*latest, step_name(1));
    // The same step again: the one that a node has is superseded there.
    for (const Status& end : run.save(2)) EXPECT_TRUE(end.ok()) << end.message();
    run.end();
    EXPECT_TRUE(run.damages().empty());
    for (const auto& outcome : run.restore()) EXPECT_EQ(outcome.choice.name, step_name(2));
    EXPECT_EQ(manifest_in(run.step_directory(0, 2)).generation, 3U);
  }
}

TEST_F(PlaceFaultTest, the_generation_of_a_checkpoint_that_may_be_there_is_not_used_again) {
  run_.start(breaking(0, "rename_noreplace", step_name(2), EIO));
  save_all({1});
  is_broken_ = true;
  for (const Status& end : run_.save(2)) EXPECT_FALSE(end.ok());
  is_broken_ = false;
  fs::remove_all(run_.step_directory(2, 2));
  save_all({3});
  run_.end();
  EXPECT_EQ(manifest_in(run_.step_directory(0, 3)).generation, 3U);
}

TEST_F(PlacesTest, a_node_that_was_fenced_takes_its_lock_again) {
  for (const std::uint32_t rank : {0U, 2U}) {
    PlacedRanks run;
    run.start();
    for (const Status& end : run.save(1)) ASSERT_TRUE(end.ok()) << end.message();
    for (const auto& entry : fs::directory_iterator(run.directory(rank)))
      if (entry.path().filename().string().starts_with("owner-")) fs::remove_all(entry.path());
    for (const Status& end : run.save(2))
      EXPECT_NE(end.message().find("another writer has taken over"), std::string::npos)
          << end.message();
    for (const Status& end : run.save(3)) EXPECT_TRUE(end.ok()) << end.message();
    run.end();
    for (const auto& outcome : run.restore()) EXPECT_EQ(outcome.choice.name, step_name(3));
  }
}

TEST_F(PlacesTest, one_directory_that_nodes_share_is_refused_as_private) {
  PlacedRanks run;
  const std::string shared = run.directory(0);
  std::atomic<int> waits = 0;
  run.start([&](std::uint32_t rank, SaverOptions& options) {
    options.directory = shared;
    options.lock.timeout = std::chrono::minutes(30);
    options.lock.now = [&] { return Deadline() + waits.load() * std::chrono::seconds(10); };
    options.lock.pause = [&](nanoseconds) { ++waits; };
    options.lock.machine = Machine{.host = "node" + std::to_string(rank / 2),
                                   .boot_id = "boot-" + std::to_string(rank / 2)};
  });
  for (const std::uint64_t step : {1U, 2U}) {
    for (const Status& end : run.save(step)) {
      EXPECT_EQ(end.code(), Code::invalid_argument) << end.message();
      for (const std::string& part :
           {shared, std::string("rank 2"), std::string("disks=\"shared\"")})
        EXPECT_NE(end.message().find(part), std::string::npos) << end.message();
    }
  }
  EXPECT_EQ(waits, 0);  // not for the lock of rank 0, which will not end
  run.end();
}

TEST_F(PlacesTest, ranks_with_different_settings_are_refused) {
  for (const std::uint32_t other : {0U, 2U}) {
    PlacedRanks run;
    run.start([&](std::uint32_t rank, SaverOptions& options) {
      options.has_private_disks = rank != other;
    });
    for (const Status& end : run.save(1)) {
      EXPECT_EQ(end.code(), Code::invalid_argument) << end.message();
      EXPECT_NE(end.message().find("only one of the ranks 0 and"), std::string::npos);
    }
    run.end();
  }
}

TEST_F(PlacesTest, directories_that_nodes_do_not_share_are_refused_as_shared) {
  run_.start([](std::uint32_t, SaverOptions& options) { options.has_private_disks = false; });
  for (const Status& end : run_.save(1)) {
    EXPECT_FALSE(end.ok());
    EXPECT_NE(end.message().find("disks=\"private\""), std::string::npos) << end.message();
  }
  run_.end();
}

TEST_F(PlacesTest, ranks_of_one_directory_save_an_ordinary_checkpoint) {
  const std::string one = run_.directory(0);
  run_.start([&](std::uint32_t, SaverOptions& options) { options.directory = one; });
  save_all({1});
  run_.end();
  EXPECT_TRUE(manifest_in(run_.step_directory(0, 1)).places.empty());
  testing::expect_whole(run_.step_directory(0, 1));
}

}  // namespace
}  // namespace stoker
