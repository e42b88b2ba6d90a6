// Nodes with private disks: every node commits the same manifest, and a restore takes what all
// have.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/place_ranks.h"
#include "support/hooked_file_ops.h"

namespace stoker {
namespace {

namespace fs = std::filesystem;
using testing::manifest_in;
using testing::opened;
using testing::PlacedRanks;
using Names = std::vector<std::string>;

class PlacesTest : public ::testing::Test {
 protected:
  void save_all(std::initializer_list<std::uint64_t> steps) {
    for (const std::uint64_t step : steps)
      for (const Status& end : run_.save(step)) ASSERT_TRUE(end.ok()) << end.message();
  }
  void expect_restored(std::uint64_t step) {
    for (const auto& outcome : run_.restore()) {
      ASSERT_FALSE(outcome.failure) << outcome.failure->report.status.message();
      EXPECT_EQ(outcome.choice.name, step_name(step));
    }
    EXPECT_EQ(run_.restored(), std::vector<std::uint64_t>(PlacedRanks::kRanks, step));
  }
  std::set<std::string> files_of(std::uint32_t rank, std::uint64_t step) const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(run_.step_directory(rank, step)))
      names.insert(entry.path().filename());
    return names;
  }

  PlacedRanks run_;
};

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

/// A disk whose calls on some path fail.
class PlaceFaultTest : public PlacesTest {
 protected:
  /// Has `rank` fail every `op` on paths that contain `part`, while `is_broken_`.
  PlacedRanks::Change breaking(std::uint32_t rank, std::string op, std::string part, int error) {
    ops_ = std::make_unique<testing::HookedFileOps>(
        posix_file_ops(), [this, op = std::move(op), part = std::move(part), error](
                              std::string_view called, const PathAt* path) {
          const bool is_hit = is_broken_ && called == op && path != nullptr &&
                              path->text().find(part) != std::string::npos;
          return is_hit ? Status::from_errno(error, called, path->text()) : Status();
        });
    return [this, rank](std::uint32_t one, SaverOptions& options) {
      if (one == rank) options.ops = ops_.get();
    };
  }

  std::unique_ptr<testing::HookedFileOps> ops_;
  std::atomic<bool> is_broken_ = false;
};

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
