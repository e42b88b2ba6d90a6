#include "checkpoint/catalog/step_removal.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <thread>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/restore/restore_choice.h"
#include "checkpoint/step_builder.h"
#include "io/files/forwarding_file_ops.h"
#include "io/files/publish.h"
#include "support/cut_sweep.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using Names = std::vector<std::string>;

/// All of it, as a checkpointer does it after each commit.
Status retire(const CheckpointDirectory& directory, const RetentionRules& rules) {
  const OwnerDirectory owner(directory, "retention");
  STOKER_TRY(owner.make());
  CatalogReader catalog(directory);
  NotesReader notes(directory);
  const RetentionReport report = retire_unwanted(owner, rules, catalog, notes);
  for (const std::string& name : report.condemned) STOKER_TRY(owner.remove(name));
  STOKER_TRY(report.failure);
  return directory.ops().rmdir(owner.self());
}

/// What the next writer does before it writes.
Status take_over(const CheckpointDirectory& directory) {
  const OwnerDirectory next(directory, "next");
  STOKER_TRY(next.make());
  STOKER_TRY(next.take_over());
  STOKER_TRY(next.sweep());
  return directory.ops().rmdir(next.self());
}

/// Publishes a note without the lock of notes, as where files cannot be locked.
void say(const CheckpointDirectory& directory, std::uint64_t step, const StepNotes& notes) {
  std::filesystem::create_directory(directory.path() + "/notes");
  const std::string text = format_step_notes(step, notes);
  must(publish_file(posix_file_ops(), directory.path() + "/" + note_path(step),
                    std::as_bytes(std::span(text))));
}

/// Calls `body` before a checkpoint is put aside.
class WatchedFileOps final : public ForwardingFileOps {
 public:
  explicit WatchedFileOps(std::function<void(const std::string&)> body)
      : ForwardingFileOps(posix_file_ops()), body_(std::move(body)) {}
  Status rename(const PathAt& from, const PathAt& to) override {
    if (to.last().starts_with("retire-")) body_(std::string(from.last()));
    return ForwardingFileOps::rename(from, to);
  }
  void reached(std::string_view point) override { points.emplace(point); }

  std::multiset<std::string> points;

 private:
  const std::function<void(const std::string&)> body_;
};

/// Steps 1, 2 and 3, of the same generations.
class StepRemovalTest : public ::testing::Test {
 protected:
  StepRemovalTest() {
    for (std::uint64_t step = 1; step <= 3; ++step)
      write_built_step(posix_file_ops(), dir_.path(), small_step(step, step));
    must(owner_.make());
  }
  Catalog list() const { return *list_checkpoints(run_); }
  bool is_there(const std::string& name) const { return list().find(name) != nullptr; }
  void expect_whole() const {
    const auto verified = verify_checkpoints(run_, {.reader = plain_reader()});
    ASSERT_TRUE(verified.ok()) << verified.status().message();
    for (const CheckpointDamage& damage : verified->damages)
      ADD_FAILURE() << damage.step << "/" << damage.file << ": " << damage.reason;
  }

  const TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  const OwnerDirectory owner_{run_, "writer"};
};

TEST_F(StepRemovalTest, a_retired_checkpoint_is_out_of_sight_and_whole_until_it_is_removed) {
  const Catalog catalog = list();
  const auto condemned = retire_checkpoint(owner_, *catalog.find(step_name(1)), nullptr);
  ASSERT_TRUE(condemned.ok() && condemned->has_value()) << condemned.status().message();
  EXPECT_FALSE(is_there(step_name(1)));
  const std::string place = owner_.at(**condemned).text();
  EXPECT_TRUE(std::filesystem::exists(place + "/manifest.json"));
  EXPECT_TRUE(std::filesystem::exists(place + "/rank-00000.safetensors"));
  must(owner_.remove(**condemned));
  EXPECT_FALSE(std::filesystem::exists(place));
  EXPECT_TRUE(std::filesystem::is_empty(owner_.self().text()));
  must(owner_.remove(**condemned));  // gone already
}

// The medium has changed a byte, and neither the inode nor the time of the file tells of it.
TEST_F(StepRemovalTest, what_is_kept_is_read_before_others_are_removed_for_its_sake) {
  CatalogReader catalog(run_);
  NotesReader notes(run_);
  ASSERT_TRUE(catalog.list().ok());  // all three were valid
  for (const std::uint64_t step : {3U, 2U}) {
    const std::string path = dir_.file(step_name(step) + "/manifest.json");
    const auto time = std::filesystem::last_write_time(path);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    std::fstream file(path, std::ios::in | std::ios::out);
    file.seekp(40).put('#');
    file.close();
    std::filesystem::last_write_time(path, time);
  }
  const RetentionReport report = retire_unwanted(owner_, {.keep_last = 1}, catalog, notes);
  EXPECT_TRUE(report.failure.ok()) << report.failure.message();
  EXPECT_EQ(report.names, Names{}) << "the only valid one stays, and so does what is damaged";
  EXPECT_TRUE(is_there(step_name(1)));
}

TEST_F(StepRemovalTest, a_value_that_is_no_number_does_not_keep_a_checkpoint) {
  must(annotate_checkpoint(run_, 1, 1, {{"loss", std::nan("")}}));
  must(retire(run_, {.keep_last = 1}));
  EXPECT_FALSE(is_there(step_name(1)));
  EXPECT_FALSE(is_there(step_name(2)));
}

TEST_F(StepRemovalTest, one_that_cannot_be_removed_does_not_keep_the_others) {
  class Stubborn final : public ForwardingFileOps {
   public:
    Stubborn() : ForwardingFileOps(posix_file_ops()) {}
    Status rename(const PathAt& from, const PathAt& to) override {
      if (from.last() == step_name(1)) return Status::from_errno(EPERM, "rename", from.text());
      return ForwardingFileOps::rename(from, to);
    }
  } ops;
  const CheckpointDirectory run = run_.with(ops);
  CatalogReader catalog(run);
  NotesReader notes(run);
  const RetentionReport report =
      retire_unwanted(OwnerDirectory(run, "writer"), {.keep_last = 1}, catalog, notes);
  EXPECT_EQ(report.failure.os_error(), EPERM);
  EXPECT_EQ(report.names, Names{step_name(2)});
}

TEST_F(StepRemovalTest, a_note_that_has_changed_since_the_decision_gives_the_name_back) {
  const Catalog catalog = list();
  const CatalogStep& step = *catalog.find(step_name(2));
  must(annotate_checkpoint(run_, 2, 2, {{"loss", 0.5}}));
  EXPECT_FALSE(retire_checkpoint(owner_, step, nullptr)->has_value());
  EXPECT_TRUE(is_there(step_name(2)));
  const CheckpointNote known = read_step_notes(run_, 2)->at(2);
  must(pin_checkpoint(run_, 2, 2, true));
  EXPECT_FALSE(retire_checkpoint(owner_, step, &known)->has_value());
  EXPECT_TRUE(is_there(step_name(2)));
  must(pin_checkpoint(run_, 2, 2, false));
  EXPECT_TRUE(retire_checkpoint(owner_, step, &known)->has_value());
  EXPECT_FALSE(is_there(step_name(2)));
  EXPECT_EQ(pin_checkpoint(run_, 2, 2, true).code(), Code::not_found);
}

TEST_F(StepRemovalTest, another_checkpoint_under_the_name_is_not_taken_for_the_one_decided_on) {
  const Catalog catalog = list();
  std::filesystem::remove_all(dir_.file(step_name(1)));
  write_built_step(posix_file_ops(), dir_.path(), small_step(1, 7));
  EXPECT_FALSE(retire_checkpoint(owner_, *catalog.find(step_name(1)), nullptr)->has_value());
  EXPECT_EQ(list().find(step_name(1))->generation, 7U);
  // Nor is one whose manifest cannot be read, or whose note cannot.
  std::ofstream(dir_.file(step_name(2) + "/manifest.json"), std::ios::app) << "x";
  EXPECT_FALSE(retire_checkpoint(owner_, *catalog.find(step_name(2)), nullptr)->has_value());
  EXPECT_TRUE(is_there(step_name(2)));
  std::filesystem::create_directory(dir_.file("notes"));
  std::ofstream(dir_.file(note_path(3))) << "nonsense";
  EXPECT_FALSE(retire_checkpoint(owner_, *catalog.find(step_name(3)), nullptr)->has_value());
  EXPECT_TRUE(is_there(step_name(3)));
}

TEST_F(StepRemovalTest, a_pin_in_the_last_moment_holds_and_the_others_go_all_the_same) {
  WatchedFileOps ops([&](const std::string& name) {
    if (name == step_name(1)) say(run_, 1, {{1, {.is_pinned = true}}});
  });
  must(retire(run_.with(ops), {.keep_last = 1}));
  EXPECT_TRUE(is_there(step_name(1)));
  EXPECT_FALSE(is_there(step_name(2)));
  EXPECT_EQ(ops.points.count("retention.given_back"), 1U);
  EXPECT_EQ(ops.points.count("retention.condemned"), 1U);
  expect_whole();
}

TEST_F(StepRemovalTest, a_value_in_the_last_moment_makes_it_decide_anew) {
  say(run_, 1, {{1, {.values = {{"loss", 0.3}}}}});
  say(run_, 2, {{2, {.values = {{"loss", 0.2}}}}});
  WatchedFileOps ops([&](const std::string& name) {
    if (name == step_name(1)) say(run_, 1, {{1, {.values = {{"loss", 0.1}}}}});
  });
  must(retire(run_.with(ops), {.keep_best = KeepBest{.metric = "loss"}}));
  EXPECT_TRUE(is_there(step_name(1))) << "it is the best now";
  EXPECT_FALSE(is_there(step_name(2)));
}

TEST_F(StepRemovalTest, somebody_who_never_stops_annotating_ends_nothing_but_this_attempt) {
  double loss = 0;
  WatchedFileOps ops([&](const std::string& name) {
    if (name == step_name(1)) say(run_, 1, {{1, {.values = {{"loss", ++loss}}}}});
  });
  CatalogReader catalog(run_.with(ops));
  NotesReader notes(run_.with(ops));
  const OwnerDirectory owner(run_.with(ops), "writer");
  const RetentionReport report = retire_unwanted(owner, {.keep_last = 1}, catalog, notes);
  EXPECT_TRUE(report.failure.ok()) << report.failure.message();
  EXPECT_TRUE(is_there(step_name(1)));
  expect_whole();
}

TEST_F(StepRemovalTest, one_that_was_damaged_since_it_was_listed_is_none_that_is_kept) {
  CatalogReader catalog(run_);
  NotesReader notes(run_);
  ASSERT_TRUE(catalog.list(CatalogReader::Recheck::names).ok());
  std::ofstream(dir_.file(step_name(3) + "/manifest.json"), std::ios::app) << "x";
  EXPECT_EQ(retire_unwanted(owner_, {.keep_last = 1}, catalog, notes).names, Names{step_name(1)});
  EXPECT_TRUE(is_there(step_name(2)));
}

TEST_F(StepRemovalTest, one_that_is_pinned_is_not_removed_by_name_either) {
  must(pin_checkpoint(run_, 1, 1, true));
  const Catalog catalog = list();
  EXPECT_FALSE(*remove_checkpoint(owner_, *catalog.find(step_name(1))));
  EXPECT_TRUE(*remove_checkpoint(owner_, *catalog.find(step_name(2))));
  EXPECT_TRUE(is_there(step_name(1)));
  EXPECT_FALSE(is_there(step_name(2)));
}

TEST_F(StepRemovalTest, a_writer_that_was_fenced_removes_nothing) {
  const Catalog catalog = list();
  must(take_over(run_));
  EXPECT_EQ(retire_checkpoint(owner_, *catalog.find(step_name(1)), nullptr).status().code(),
            Code::not_found);
  CatalogReader reader(run_);
  NotesReader notes(run_);
  const RetentionReport report = retire_unwanted(owner_, {.keep_last = 1}, reader, notes);
  EXPECT_EQ(report.failure.code(), Code::not_found);
  EXPECT_TRUE(report.names.empty());
  for (const std::uint64_t step : {1U, 2U, 3U}) EXPECT_TRUE(is_there(step_name(step)));
}

TEST_F(StepRemovalTest, a_pin_that_returned_holds_however_it_races) {
  must(posix_file_ops().rmdir(owner_.self()));
  for (std::uint64_t step = 10; step < 60; ++step)
    write_built_step(posix_file_ops(), dir_.path(), small_step(step, step));
  std::set<std::uint64_t> pinned;
  {
    std::jthread writer([&] {
      for (std::uint64_t kept = 50; kept > 0; kept -= 5) must(retire(run_, {.keep_last = kept}));
    });
    for (std::uint64_t step = 10; step < 59; ++step) {
      const Status status = pin_checkpoint(run_, step, step, true);
      EXPECT_TRUE(status.ok() || status.code() == Code::not_found) << status.message();
      if (status.ok()) pinned.insert(step);
    }
  }
  must(retire(run_, {.keep_last = 1}));
  const Catalog catalog = list();
  for (const std::uint64_t step : pinned) EXPECT_NE(catalog.find(step_name(step)), nullptr) << step;
  EXPECT_EQ(catalog.steps.size(), pinned.size() + 1);
  expect_whole();
}

TEST_F(StepRemovalTest, any_single_failure_leaves_the_others_whole) {
  for (int fail_at = 0;; ++fail_at) {
    const TempDir dir;
    for (std::uint64_t step = 1; step <= 3; ++step)
      write_built_step(posix_file_ops(), dir.path(), small_step(step, step));
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    static_cast<void>(retire(opened(dir.path()).with(ops), {.keep_last = 1}));
    if (!ops.fired()) break;
    for (const bool is_swept : {false, true}) {
      if (is_swept) must(take_over(opened(dir.path())));
      const Result<CheckpointVerifyReport> verified =
          verify_checkpoints(opened(dir.path()), {.reader = plain_reader()});
      ASSERT_TRUE(verified.ok());
      EXPECT_TRUE(verified->damages.empty()) << ops.failed_op();
      EXPECT_NE(list_checkpoints(opened(dir.path()))->find(step_name(3)), nullptr);
    }
  }
}

TEST_F(StepRemovalTest, a_cut_at_any_moment_leaves_a_step_whole_or_out_of_sight) {
  const auto workload = [](CutRun& run) {
    ModelDisk& disk = run.disk();
    must(disk.mkdir("/run"));
    for (std::uint64_t step = 1; step <= 3; ++step)
      write_built_step(disk, "/run", small_step(step, step));
    must(disk.fsync_dir("/"));
    run.note("written");
    must(retire(opened("/run", disk), {.keep_last = 1}));
    run.note("removed");
  };
  const auto oracle = [](ModelDisk& disk, const CutPoint& point) -> std::string {
    if (!point.has("written")) return {};
    const CheckpointDirectory run = opened("/run", disk);
    CheckpointReader::Options reader = plain_reader();
    reader.engine = [&] { return disk.make_engine(); };
    const auto damage_in = [&]() -> std::string {
      const auto report = verify_checkpoints(run, {.reader = reader});
      if (!report.ok()) return std::string(report.status().message());
      if (!report->damages.empty()) return report->damages[0].file + report->damages[0].reason;
      const Result<Catalog> catalog = list_checkpoints(run);
      if (catalog->find(step_name(3)) == nullptr) return "the newest is gone";
      if (point.has("removed") && catalog->steps.size() != 1) return "a removed one is back";
      return {};
    };
    if (std::string damage = damage_in(); !damage.empty()) return damage;
    // What was out of sight goes with the next writer.
    if (const Status swept = take_over(run); !swept.ok()) return std::string(swept.message());
    if (std::string damage = damage_in(); !damage.empty()) return "after the sweep: " + damage;
    const Result<Names> names = disk.list("/run");
    for (const std::string& name : *names)
      if (!parse_step_name(name)) return name + " is left over";
    return {};
  };
  const SweepReport report = for_each_cut(workload, oracle);
  EXPECT_EQ(report.violation_count, 0U) << report.text();
  EXPECT_GT(report.state_count, 50U);
  report.record("retention_");
}

TEST(StepRemovalRaceTest, a_reader_that_races_it_always_finds_a_whole_checkpoint) {
  const TempDir dir;
  const CheckpointDirectory run = opened(dir.path());
  write_built_step(posix_file_ops(), dir.path(), small_step(1, 1));
  std::atomic<bool> is_done = false;
  std::jthread writer([&] {
    for (std::uint64_t step = 2; step <= 150; ++step) {
      // Renamed into place, as a commit does it.
      BuiltStep built = small_step(step, step);
      built.name = "owner-x";
      write_built_step(posix_file_ops(), dir.path(), built);
      must(posix_file_ops().rename(dir.file("owner-x"), dir.file(step_name(step))));
      must(retire(run, {.keep_last = 1}));
    }
    is_done = true;
  });
  std::uint64_t newest = 0;
  int count = 0;
  for (; !is_done || count == 0; ++count) {
    std::vector<std::byte> memory(60);
    std::uint64_t step = 0;
    const Result<RestoreChoice> choice = choose_checkpoint(
        {.directory = run, .reader = plain_reader()}, [&](const CheckpointReader& reader) {
          step = reader.manifest().step;
          return reader.read({.name = "model.weight", .memory = memory});
        });
    ASSERT_TRUE(choice.ok()) << choice.status().message();
    EXPECT_TRUE(choice->passed_over.empty()) << choice->passed_over[0].reason.message();
    EXPECT_EQ(memory, small_step(step, step).ranks[0][0].bytes);
    EXPECT_GE(step, newest);
    newest = step;
  }
  RecordProperty("restores", count);
}

}  // namespace
}  // namespace stoker::testing
