#include "checkpoint/notes.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cmath>
#include <filesystem>
#include <thread>

#include "checkpoint/step_builder.h"
#include "support/cut_sweep.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

TEST(NotesTest, come_back_as_they_were_said) {
  const TempDir dir;
  FileOps& ops = posix_file_ops();
  EXPECT_TRUE(read_step_notes(ops, dir.path(), 7)->empty());
  EXPECT_TRUE(read_all_notes(ops, dir.path())->by_step.empty());
  must(
      annotate_checkpoint(ops, dir.path(), 7, 3, {{"val_loss", 2.25}, {"worst \"x\"", -INFINITY}}));
  must(annotate_checkpoint(ops, dir.path(), 7, 3, {{"val_loss", 0.1}}));
  must(annotate_checkpoint(ops, dir.path(), 7, 9, {{"val_loss", 1.0}}));
  must(pin_checkpoint(ops, dir.path(), 7, 3, true));
  const Result<AllNotes> all = read_all_notes(ops, dir.path());
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->damaged.empty());
  EXPECT_EQ(*all->find(7, 3),
            (CheckpointNote{true, {{"val_loss", 0.1}, {"worst \"x\"", -INFINITY}}}));
  EXPECT_EQ(*all->find(7, 9), (CheckpointNote{false, {{"val_loss", 1.0}}}));
  EXPECT_EQ(all->find(7, 4), nullptr);
  must(pin_checkpoint(ops, dir.path(), 7, 3, false));
  EXPECT_FALSE(read_step_notes(ops, dir.path(), 7)->at(3).is_pinned);
}

TEST(NotesTest, a_fifo_in_place_of_a_note_is_damage_and_hangs_nobody) {
  const TempDir dir;
  std::filesystem::create_directory(dir.file("notes"));
  const std::string path = dir.file("notes/" + step_name(7) + ".json");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  const Result<AllNotes> all = read_all_notes(posix_file_ops(), dir.path());
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->damaged.size(), 1U);
  EXPECT_EQ(all->damaged.front().reason.code(), Code::corrupt);
  EXPECT_NE(all->damaged.front().reason.message().find("not a regular file"),
            std::string_view::npos);
}

TEST(NotesTest, every_single_bit_that_flips_is_found_and_named) {
  const std::string text = format_step_notes(7, {{3, {true, {{"val_loss", 0.1}}}}});
  EXPECT_TRUE(parse_step_notes(text, 7, "note").ok());
  for (std::size_t at = 0; at < text.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string spoilt = text;
      spoilt[at] = static_cast<char>(spoilt[at] ^ (1 << bit));
      const Status status = parse_step_notes(spoilt, 7, "note").status();
      ASSERT_EQ(status.code(), Code::corrupt) << at;
      ASSERT_NE(status.message().find("note"), std::string::npos);
    }
  }
  EXPECT_EQ(parse_step_notes(text, 8, "note").status().code(), Code::corrupt);
}

TEST(NotesTest, a_damaged_note_is_named_and_never_overwritten) {
  const TempDir dir;
  must(pin_checkpoint(posix_file_ops(), dir.path(), 7, 3, true));
  std::ofstream(dir.file(note_path(7)), std::ios::app) << "x";
  const Result<AllNotes> all = read_all_notes(posix_file_ops(), dir.path());
  ASSERT_EQ(all->damaged.size(), 1U);
  EXPECT_TRUE(all->is_damaged(7));
  EXPECT_FALSE(all->is_damaged(8));
  EXPECT_EQ(annotate_checkpoint(posix_file_ops(), dir.path(), 7, 3, {{"x", 1}}).code(),
            Code::corrupt);
}

TEST(NotesTest, writers_at_the_same_time_lose_nothing) {
  const TempDir dir;
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < 4; ++i)
      threads.emplace_back([&dir, i] {
        for (std::uint64_t k = 0; k < 10; ++k)
          must(pin_checkpoint(posix_file_ops(), dir.path(), 7, 10 * i + k, true));
      });
  }
  EXPECT_EQ(read_step_notes(posix_file_ops(), dir.path(), 7)->size(), 40U);
}

TEST(NotesTest, any_single_failure_leaves_the_old_note_or_the_new_one) {
  for (int fail_at = 0;; ++fail_at) {
    const TempDir dir;
    must(annotate_checkpoint(posix_file_ops(), dir.path(), 7, 3, {{"x", 1}}));
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Status status = annotate_checkpoint(ops, dir.path(), 7, 3, {{"x", 2}});
    if (!ops.fired()) break;
    const Result<StepNotes> notes = read_step_notes(posix_file_ops(), dir.path(), 7);
    ASSERT_TRUE(notes.ok()) << notes.status().message();
    const double x = notes->at(3).values.at("x");
    EXPECT_TRUE(x == 2 || (x == 1 && !status.ok())) << ops.failed_op();
  }
}

TEST(NotesTest, a_cut_leaves_the_old_note_or_the_new_one) {
  const auto workload = [](CutRun& run) {
    must(run.disk().mkdir("/run"));
    must(run.disk().fsync_dir("/"));
    for (int i = 1; i <= 3; ++i) {
      must(annotate_checkpoint(run.disk(), "/run", 7, 3, {{"x", i}}));
      run.note("said " + std::to_string(i));
    }
  };
  const auto oracle = [](ModelDisk& disk, const CutPoint& point) -> std::string {
    const Result<StepNotes> notes = read_step_notes(disk, "/run", 7);
    if (!notes.ok()) return std::string(notes.status().message());
    const double x = notes->empty() ? 0 : notes->at(3).values.at("x");
    const auto said = static_cast<double>(point.count("said"));
    return x == said || x == said + 1 ? "" : "the note has lost what was said";
  };
  const SweepReport report = for_each_cut(workload, oracle);
  EXPECT_EQ(report.violation_count, 0U) << report.text();
  report.record("notes_");
}

}  // namespace
}  // namespace stoker::testing
