#include "checkpoint/directory/owner_directory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/inspect/verify.h"
#include "checkpoint/step_builder.h"
#include "io/files/forwarding_file_ops.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

namespace fs = std::filesystem;

std::string retire_name(std::uint64_t step, std::uint64_t generation) {
  return aside_name({.purpose = AsideName::Purpose::retire,
                     .step = {.step = step, .superseded_generation = {}},
                     .generation = generation});
}

std::string keep_name(std::uint64_t step, std::uint64_t generation) {
  return aside_name({.purpose = AsideName::Purpose::keep,
                     .step = {.step = step, .superseded_generation = {}},
                     .generation = generation});
}

class OwnerDirectoryTest : public ::testing::Test {
 protected:
  /// What the writer "dead" has put into its directory, under this name.
  void put_aside(const BuiltStep& step, const std::string& name) const {
    fs::create_directory(dir_.file("owner-dead"));
    BuiltStep named = step;
    named.name = name;
    write_built_step(posix_file_ops(), dir_.file("owner-dead"), named);
  }
  /// As whoever takes over does it.
  void take_over() const {
    must(next_.make());
    must(next_.take_over());
    must(next_.sweep());
  }
  void expect_nothing_left() const {
    EXPECT_TRUE(fs::is_empty(next_.self().text()));
    for (const auto& entry : fs::directory_iterator(dir_.path())) {
      const std::string name = entry.path().filename().string();
      EXPECT_TRUE(name == next_.name() || !is_owner_name(name)) << name;
    }
    const auto verified = verify_checkpoints(run_, {.reader = plain_reader()});
    ASSERT_TRUE(verified.ok());
    EXPECT_TRUE(verified->damages.empty()) << verified->damages[0].reason;
  }
  const CatalogStep* find(const std::string& name) {
    catalog_ = *list_checkpoints(run_);
    return catalog_.find(name);
  }

  const TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
  const OwnerDirectory next_{run_, "next"};
  Catalog catalog_;
};

TEST_F(OwnerDirectoryTest, what_is_staged_gets_a_name_that_is_free_and_no_other) {
  must(next_.make());
  EXPECT_EQ(next_.make().code(), Code::already_exists);
  for (const char* const name : {"a", "b"}) {
    fs::create_directory(next_.at(name).text());
    std::ofstream(next_.at(name).text() + "/f") << name;
  }
  must(next_.publish("a", step_name(1)));
  EXPECT_EQ(next_.publish("b", step_name(1)).code(), Code::already_exists);
  EXPECT_EQ(contents_of(dir_.file(step_name(1) + "/f")), "a");
  EXPECT_EQ(next_.publish("c", step_name(2)).code(), Code::not_found);
}

/// NFS.
class NoFlagFileOps final : public ForwardingFileOps {
 public:
  NoFlagFileOps() : ForwardingFileOps(posix_file_ops()) {}
  Status rename_noreplace(const PathAt& /*from*/, const PathAt& to) override {
    return Status(Code::unsupported, to.text() + ": no such flag");
  }
};

TEST_F(OwnerDirectoryTest, without_the_rename_flag_a_checkpoint_is_not_replaced_either) {
  NoFlagFileOps ops;
  const OwnerDirectory owner(run_.with(ops), "next");
  must(owner.make());
  for (const char* const name : {"a", "b"}) {
    fs::create_directory(owner.at(name).text());
    std::ofstream(owner.at(name).text() + "/f") << name;
  }
  must(owner.publish("a", step_name(1)));
  EXPECT_FALSE(owner.publish("b", step_name(1)).ok());
  EXPECT_EQ(contents_of(dir_.file(step_name(1) + "/f")), "a");
}

TEST_F(OwnerDirectoryTest, a_writer_that_was_fenced_finds_neither_its_files_nor_its_directory) {
  const OwnerDirectory old(run_, "dead");
  must(old.make());
  fs::create_directory(old.at("staged").text());
  write_built_step(posix_file_ops(), dir_.path(), small_step(1, 1));
  const UniqueFd kept(::open(old.self().text().c_str(), O_RDONLY | O_DIRECTORY));
  const UniqueFd run(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY));
  take_over();
  EXPECT_EQ(old.publish("staged", step_name(2)).code(), Code::not_found);
  EXPECT_EQ(old.condemn("staged").status().code(), Code::not_found);
  EXPECT_EQ(posix_file_ops().rename(run_.at(step_name(1)), old.at("retire-1")).code(),
            Code::not_found);
  // Nor by a descriptor of the directory that it has kept.
  EXPECT_NE(::renameat(kept.get(), "staged", run.get(), step_name(2).c_str()), 0);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_NE(::renameat(run.get(), step_name(1).c_str(), kept.get(), "retire-1"), 0);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_NE(find(step_name(1)), nullptr);
  EXPECT_EQ(find(step_name(2)), nullptr);
  expect_nothing_left();
}

/// Calls `body` whenever a crash point is reached.
class PointFileOps final : public ForwardingFileOps {
 public:
  explicit PointFileOps(std::function<void(std::string_view)> body)
      : ForwardingFileOps(posix_file_ops()), body_(std::move(body)) {}
  void reached(std::string_view point) override { body_(point); }

 private:
  const std::function<void(std::string_view)> body_;
};

TEST_F(OwnerDirectoryTest, what_a_slow_writer_still_moves_into_a_kept_directory_is_not_lost) {
  const OwnerDirectory old(run_, "dead");
  must(old.make());
  write_built_step(posix_file_ops(), dir_.path(), small_step(1, 1));
  must(pin_checkpoint(run_, 1, 1, true));
  const UniqueFd kept(::open(old.self().text().c_str(), O_RDONLY | O_DIRECTORY));
  const UniqueFd run(::open(dir_.path().c_str(), O_RDONLY | O_DIRECTORY));
  int moved = -1;
  PointFileOps ops([&](std::string_view point) {
    if (point == "takeover.fenced")
      moved = ::renameat(run.get(), step_name(1).c_str(), kept.get(), retire_name(1, 1).c_str());
  });
  const OwnerDirectory next(run_.with(ops), "next");
  must(next.make());
  must(next.take_over());
  EXPECT_EQ(moved, 0);
  EXPECT_EQ(find(step_name(1)), nullptr);
  must(next.sweep());
  ASSERT_NE(find(step_name(1)), nullptr) << "it is pinned";
  expect_nothing_left();
}

TEST_F(OwnerDirectoryTest, a_retired_checkpoint_is_decided_on_anew) {
  for (std::uint64_t step = 1; step <= 4; ++step) {
    write_built_step(posix_file_ops(), dir_.path(), small_step(step, step));
    if (step == 2) must(pin_checkpoint(run_, 2, 2, true));
    if (step == 4) must(annotate_checkpoint(run_, 4, 4, {{"loss", 1}}));
    fs::remove_all(dir_.file(step_name(step)));
  }
  std::ofstream(dir_.file(note_path(4)), std::ios::app) << "x";
  put_aside(small_step(1, 1), retire_name(1, 1));
  put_aside(small_step(2, 2), retire_name(2, 2));  // pinned
  put_aside(small_step(3, 3), retire_name(3, 9));  // not the one that was meant
  put_aside(small_step(4, 4), retire_name(4, 4));  // nobody can read its note
  put_aside(small_step(5, 5), retire_name(5, 5));
  std::ofstream(dir_.file("owner-dead/" + retire_name(5, 5) + "/manifest.json")) << "spoilt";
  take_over();
  EXPECT_EQ(find(step_name(1)), nullptr);
  for (const std::uint64_t step : {2U, 3U, 4U, 5U}) EXPECT_NE(find(step_name(step)), nullptr);
  EXPECT_TRUE(fs::is_empty(next_.self().text()));
}

TEST_F(OwnerDirectoryTest, a_checkpoint_on_its_way_to_another_name_gets_it) {
  put_aside(small_step(1, 1), keep_name(1, 1));
  put_aside(small_step(2, 2), keep_name(2, 2));
  BuiltStep taken = small_step(2, 2, 5);
  taken.name = superseded_name(2, 2);
  write_built_step(posix_file_ops(), dir_.path(), taken);
  take_over();
  EXPECT_EQ(find(step_name(1)), nullptr);
  EXPECT_NE(find(superseded_name(1, 1)), nullptr);
  EXPECT_NE(find(superseded_name(2, 2)), nullptr);
  EXPECT_NE(find(superseded_name(2, 2, 2)), nullptr) << "both are kept";
  expect_nothing_left();
}

TEST_F(OwnerDirectoryTest, a_name_that_is_taken_is_given_back_as_that_of_a_superseded_one) {
  put_aside(small_step(1, 1), retire_name(1, 1));
  write_built_step(posix_file_ops(), dir_.path(), small_step(1, 2, 8));
  must(annotate_checkpoint(run_, 1, 2, {{"loss", 1}}));
  std::ofstream(dir_.file(note_path(1)), std::ios::app) << "x";  // so it cannot be decided
  take_over();
  EXPECT_EQ(find(step_name(1))->generation, 2U);
  EXPECT_EQ(find(superseded_name(1, 1))->generation, 1U);
}

TEST_F(OwnerDirectoryTest, staged_files_and_what_was_condemned_are_removed) {
  put_aside(small_step(1, 1), "step-000000000001-1");
  put_aside(small_step(2, 2), remove_name("x"));
  put_aside(small_step(3, 3), "step-000000000003-3.abandoned");
  put_aside(small_step(4, 4), "linked-x");
  std::ofstream(dir_.file("owner-dead/catalog")) << "half";
  fs::create_symlink("/etc/passwd", dir_.file("owner-dead/latest"));
  fs::create_directory(dir_.file("owner-other"));
  fs::create_directories(dir_.file(".trash-000000000001-x/y"));
  take_over();
  EXPECT_TRUE(find("") == nullptr && catalog_.steps.empty());
  EXPECT_FALSE(fs::exists(dir_.file(".trash-000000000001-x")));
  EXPECT_TRUE(fs::exists("/etc/passwd"));
  expect_nothing_left();
}

TEST_F(OwnerDirectoryTest, a_takeover_that_was_stopped_is_ended_by_the_next) {
  // As after takeover.fenced: what the dead one had lies in a directory within another's.
  fs::create_directories(dir_.file("owner-second/" + taken_name("a")));
  BuiltStep inner = small_step(1, 1);
  inner.name = keep_name(1, 1);
  write_built_step(posix_file_ops(), dir_.file("owner-second/" + taken_name("a")), inner);
  // As in the middle of emptying it.
  BuiltStep moved = small_step(2, 2);
  moved.name = moved_name(keep_name(2, 2), "b");
  write_built_step(posix_file_ops(), dir_.file("owner-second"), moved);
  take_over();
  EXPECT_NE(find(superseded_name(1, 1)), nullptr);
  EXPECT_NE(find(superseded_name(2, 2)), nullptr);
  expect_nothing_left();
}

TEST_F(OwnerDirectoryTest, what_is_no_directory_is_neither_followed_nor_removed) {
  const TempDir elsewhere;
  std::ofstream(elsewhere.file("precious")) << "x";
  fs::create_symlink(elsewhere.path(), dir_.file("owner-link"));
  fs::create_symlink(elsewhere.path(), dir_.file(".trash-link"));
  std::ofstream(dir_.file("owner-file")) << "mine";
  std::ofstream(dir_.file(".trash-file")) << "mine";
  take_over();
  EXPECT_TRUE(fs::exists(elsewhere.file("precious")));
  for (const char* const name : {"owner-link", ".trash-link", "owner-file", ".trash-file"})
    EXPECT_TRUE(fs::exists(fs::symlink_status(dir_.file(name)))) << name;
  // A link inside a dead owner's directory goes, and what it leads to stays.
  fs::create_directory(dir_.file("owner-dead"));
  fs::create_symlink(elsewhere.path(), dir_.file("owner-dead/" + retire_name(1, 1)));
  must(next_.take_over());
  static_cast<void>(next_.sweep());
  EXPECT_TRUE(fs::exists(elsewhere.file("precious")));
}

TEST_F(OwnerDirectoryTest, any_failing_call_of_a_takeover_loses_nothing_and_the_next_one_ends_it) {
  int fault = 0;
  for (;; ++fault) {
    const TempDir dir;
    const CheckpointDirectory run = opened(dir.path());
    fs::create_directory(dir.file("owner-dead"));
    for (std::uint64_t step = 1; step <= 2; ++step) {
      BuiltStep built = small_step(step, step);
      built.name = step == 1 ? keep_name(1, 1) : retire_name(2, 2);
      write_built_step(posix_file_ops(), dir.file("owner-dead"), built);
    }
    fs::create_directories(dir.file("owner-dead/step-000000000003-1"));
    FaultyFileOps ops(posix_file_ops(), fault, EIO, FaultyFileOps::Removals::counted);
    const OwnerDirectory owner(run.with(ops), "faulty");
    Status status = owner.make();
    if (status.ok()) status = owner.take_over();
    if (status.ok()) status = owner.sweep();
    if (!ops.fired()) break;
    SCOPED_TRACE(ops.failed_op() + " " + std::to_string(fault));
    const OwnerDirectory next(run, "next");
    must(next.make());
    must(next.take_over());
    must(next.sweep());
    const Result<Catalog> catalog = list_checkpoints(run);
    ASSERT_TRUE(catalog.ok());
    EXPECT_NE(catalog->find(superseded_name(1, 1)), nullptr);
    for (const CatalogStep& step : catalog->steps) EXPECT_TRUE(step.is_valid()) << step.name;
    EXPECT_TRUE(fs::is_empty(next.self().text()));
    EXPECT_FALSE(fs::exists(dir.file("owner-faulty")));
    EXPECT_FALSE(fs::exists(dir.file("owner-dead")));
  }
  EXPECT_GT(fault, 20);
}

}  // namespace
}  // namespace stoker::testing
