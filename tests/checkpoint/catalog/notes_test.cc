#include "checkpoint/catalog/notes.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "checkpoint/directory/notes_directory.h"
#include "checkpoint/directory/writer_lock.h"
#include "checkpoint/step_builder.h"
#include "io/files/forwarding_file_ops.h"
#include "support/cut_sweep.h"
#include "support/faulty_file_ops.h"
#include "support/in_child.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

/// A directory with a checkpoint of step 7, generation 3, and one of 9 that has replaced it.
class NotesTest : public ::testing::Test {
 protected:
  NotesTest() {
    write_superseded(3);
    write_built_step(posix_file_ops(), dir_.path(), small_step(7, 9));
  }
  void write_superseded(std::uint64_t generation) const {
    BuiltStep step = small_step(7, generation);
    step.name = superseded_name(7, generation);
    write_built_step(posix_file_ops(), dir_.path(), step);
  }

  const TempDir dir_;
  const CheckpointDirectory run_ = opened(dir_.path());
};

TEST_F(NotesTest, come_back_as_they_were_said) {
  EXPECT_TRUE(read_step_notes(run_, 7)->empty());
  EXPECT_TRUE(read_all_notes(run_)->by_step.empty());
  must(annotate_checkpoint(run_, 7, 3, {{"val_loss", 2.25}, {"worst \"x\"", -INFINITY}}));
  must(annotate_checkpoint(run_, 7, 3, {{"val_loss", 0.1}}));
  must(annotate_checkpoint(run_, 7, 9, {{"val_loss", 1.0}}));
  must(pin_checkpoint(run_, 7, 3, true));
  const Result<AllNotes> all = read_all_notes(run_);
  ASSERT_TRUE(all.ok());
  EXPECT_TRUE(all->damaged.empty());
  EXPECT_EQ(*all->find(7, 3),
            (CheckpointNote{true, {{"val_loss", 0.1}, {"worst \"x\"", -INFINITY}}}));
  EXPECT_EQ(*all->find(7, 9), (CheckpointNote{false, {{"val_loss", 1.0}}}));
  EXPECT_EQ(all->find(7, 4), nullptr);
  must(pin_checkpoint(run_, 7, 3, false));
  EXPECT_FALSE(read_step_notes(run_, 7)->at(3).is_pinned);
}

constexpr const char* kLine = "8f14e45fceea167a5a36dedd4bea2543";
constexpr const char* kOtherLine = "c9f0f895fb98ab9159f51fd0297e236d";

TEST_F(NotesTest, say_which_line_they_are_about) {
  // The example of docs/formats/checkpoint.md.
  StepNotes notes;
  notes[41] = {.values = {{"val_loss", 2.9}}};
  notes[42] = {
      .is_pinned = true, .values = {{"grad_norm", INFINITY}, {"val_loss", 2.2}}, .line = kLine};
  const std::string text = format_step_notes(1000, notes);
  EXPECT_NE(text.find("1723134ba80ee5dd037c9f6ef1f05973"), std::string::npos) << text;
  EXPECT_EQ(*parse_step_notes(text, 1000, "notes"), notes);
}

TEST_F(NotesTest, of_another_line_lose_their_values_when_that_is_gone_and_keep_their_pin) {
  BuiltStep copy = small_step(8, 3);
  copy.line = kLine;
  write_built_step(posix_file_ops(), dir_.path(), copy);
  must(annotate_checkpoint(run_, 8, 3, {{"x", 1}}));  // as 0.1 did
  must(pin_checkpoint(run_, 8, 3, true, kLine));
  EXPECT_EQ(read_step_notes(run_, 8)->at(3), (CheckpointNote{true, {{"x", 1}}, kLine}));
  EXPECT_EQ(pin_checkpoint(run_, 8, 3, true, kOtherLine).code(), Code::already_exists);
  std::filesystem::remove_all(dir_.file(step_name(8)));
  copy.line = kOtherLine;
  write_built_step(posix_file_ops(), dir_.path(), copy);
  EXPECT_EQ(pin_checkpoint(run_, 8, 3, true, kLine).code(), Code::not_found);
  must(annotate_checkpoint(run_, 8, 3, {{"y", 2}}, kOtherLine));
  EXPECT_EQ(read_step_notes(run_, 8)->at(3), (CheckpointNote{true, {{"y", 2}}, kOtherLine}));
}

TEST_F(NotesTest, that_no_reader_would_take_are_refused_and_leave_the_old_ones) {
  must(annotate_checkpoint(run_, 7, 9, {{std::string(256, 'x'), 1.0}}));
  must(pin_checkpoint(run_, 7, 9, true));
  const StepNotes before = *read_step_notes(run_, 7);
  std::map<std::string, double> many;
  for (int i = 0; i < 70'000; ++i) many[std::string(250, 'x') + std::to_string(i)] = i;
  for (const std::map<std::string, double>& values :
       std::vector<std::map<std::string, double>>{{{std::string(257, 'x'), 1.0}},
                                                  {{std::string(17 << 20, 'x'), 1.0}},
                                                  {{"", 1.0}},
                                                  {{"\xff", 1.0}},
                                                  many}) {
    EXPECT_EQ(annotate_checkpoint(run_, 7, 9, values).code(), Code::invalid_argument);
    EXPECT_EQ(*read_step_notes(run_, 7), before);
  }
}

TEST_F(NotesTest, a_file_of_holes_is_refused_before_it_is_read) {
  must(pin_checkpoint(run_, 7, 9, true));
  const std::string path = dir_.file(note_path(7));
  std::filesystem::resize_file(path, std::uintmax_t{1} << 40);
  const Status status = read_step_notes(run_, 7).status();
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("longer than"), std::string_view::npos) << status.message();
}

TEST_F(NotesTest, of_a_checkpoint_that_is_not_there_are_told_to_be_in_vain) {
  for (const auto& [step, generation] : {std::pair(7, 4), std::pair(8, 3)}) {
    const auto pinned = pin_checkpoint(run_, static_cast<std::uint64_t>(step),
                                       static_cast<std::uint64_t>(generation), true);
    EXPECT_EQ(pinned.code(), Code::not_found) << pinned.message();
    EXPECT_NE(pinned.message().find(step_name(static_cast<std::uint64_t>(step))),
              std::string_view::npos)
        << pinned.message();
  }
  EXPECT_EQ(annotate_checkpoint(run_, 7, 4, {{"x", 1}}).code(), Code::not_found);
}

TEST_F(NotesTest, that_were_staged_by_a_dead_writer_are_swept_and_no_others) {
  must(pin_checkpoint(run_, 7, 3, true));
  const std::string note = dir_.file(note_path(7));
  std::ofstream(note + ".staged-12-3") << "half";
  std::ofstream(dir_.file("notes/mine")) << "a note of another kind";
  sweep_staged_notes(run_);
  EXPECT_FALSE(std::filesystem::exists(note + ".staged-12-3"));
  EXPECT_TRUE(std::filesystem::exists(dir_.file("notes/mine")));
  EXPECT_TRUE(read_step_notes(run_, 7)->at(3).is_pinned);
}

/// kill -9 when a note has been written and has no name yet.
class KilledWhenStaged final : public ForwardingFileOps {
 public:
  KilledWhenStaged() : ForwardingFileOps(posix_file_ops()) {}
  void reached(std::string_view point) override {
    if (point == "publish_file.staged") ::raise(SIGKILL);
  }
};

TEST_F(NotesTest, that_a_crash_left_staged_are_gone_when_the_next_writer_has_begun) {
  must(pin_checkpoint(run_, 7, 9, true));
  const auto staged_count = [&] {
    std::ptrdiff_t count = 0;
    for (const auto& entry : std::filesystem::directory_iterator(dir_.file("notes")))
      count += entry.path().string().find(".staged-") != std::string::npos ? 1 : 0;
    return count;
  };
  const ChildEnd end = in_child([&] {
    KilledWhenStaged ops;
    return annotate_checkpoint(run_.with(ops), 7, 9, {{"x", 1}}).ok() ? 0 : 1;
  });
  ASSERT_EQ(end.signal, SIGKILL);
  ASSERT_EQ(staged_count(), 1);
  LockOptions options;
  options.ttl = nanoseconds(0);
  const auto lock = WriterLock::acquire(run_, options);
  ASSERT_TRUE(lock.ok()) << lock.status().message();
  EXPECT_EQ(staged_count(), 0);
  EXPECT_EQ(read_step_notes(run_, 7)->at(9), (CheckpointNote{true, {}}));
}

TEST_F(NotesTest, that_have_not_changed_are_not_opened_again) {
  must(annotate_checkpoint(run_, 7, 3, {{"x", 1}}));
  const auto long_ago = std::filesystem::file_time_type::clock::now() - std::chrono::hours(1);
  std::filesystem::last_write_time(dir_.file(note_path(7)), long_ago);
  FaultyFileOps ops(posix_file_ops(), FaultyFileOps::kNever, 0);
  NotesReader reader(run_.with(ops));
  EXPECT_EQ(reader.read()->find(7, 3)->values.at("x"), 1);
  const int first = ops.call_count();
  EXPECT_EQ(reader.read()->find(7, 3)->values.at("x"), 1);
  EXPECT_LT(ops.call_count() - first, first);
  must(annotate_checkpoint(run_, 7, 3, {{"x", 2}}));
  EXPECT_EQ(reader.read()->find(7, 3)->values.at("x"), 2);
  must(annotate_checkpoint(run_, 7, 3, {{"x", 3}}));
  EXPECT_EQ(reader.read()->find(7, 3)->values.at("x"), 3) << "within one tick of the clock";
}

TEST_F(NotesTest, a_fifo_in_place_of_a_note_is_damage_and_hangs_nobody) {
  std::filesystem::create_directory(dir_.file("notes"));
  ASSERT_EQ(::mkfifo(dir_.file(note_path(7)).c_str(), 0600), 0);
  const Result<AllNotes> all = read_all_notes(run_);
  ASSERT_TRUE(all.ok()) << all.status().message();
  ASSERT_EQ(all->damaged.size(), 1U);
  EXPECT_EQ(all->damaged.front().reason.code(), Code::corrupt);
  EXPECT_NE(all->damaged.front().reason.message().find("not a regular file"),
            std::string_view::npos);
}

TEST_F(NotesTest, every_single_bit_that_flips_is_found_and_named) {
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

TEST_F(NotesTest, a_damaged_note_is_named_and_never_overwritten) {
  must(pin_checkpoint(run_, 7, 3, true));
  std::ofstream(dir_.file(note_path(7)), std::ios::app) << "x";
  const Result<AllNotes> all = read_all_notes(run_);
  ASSERT_EQ(all->damaged.size(), 1U);
  EXPECT_TRUE(all->is_damaged(7));
  EXPECT_FALSE(all->is_damaged(8));
  const std::string before = contents_of(dir_.file(note_path(7)));
  EXPECT_EQ(annotate_checkpoint(run_, 7, 3, {{"x", 1}}).code(), Code::corrupt);
  EXPECT_EQ(contents_of(dir_.file(note_path(7))), before);
}

TEST_F(NotesTest, writers_at_the_same_time_lose_nothing) {
  for (std::uint64_t generation = 10; generation < 50; ++generation) write_superseded(generation);
  {
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 1; i <= 4; ++i)
      threads.emplace_back([this, i] {
        for (std::uint64_t k = 0; k < 10; ++k) must(pin_checkpoint(run_, 7, 10 * i + k, true));
      });
  }
  EXPECT_EQ(read_step_notes(run_, 7)->size(), 40U);
}

TEST_F(NotesTest, any_single_failure_leaves_the_old_note_or_the_new_one) {
  for (int fail_at = 0;; ++fail_at) {
    std::filesystem::remove_all(dir_.file("notes"));
    must(annotate_checkpoint(run_, 7, 3, {{"x", 1}}));
    FaultyFileOps ops(posix_file_ops(), fail_at, EIO);
    const Status status = annotate_checkpoint(run_.with(ops), 7, 3, {{"x", 2}});
    if (!ops.fired()) break;
    const Result<StepNotes> notes = read_step_notes(run_, 7);
    ASSERT_TRUE(notes.ok()) << notes.status().message();
    const double x = notes->at(3).values.at("x");
    EXPECT_TRUE(x == 2 || (x == 1 && !status.ok())) << ops.failed_op();
  }
}

TEST_F(NotesTest, a_cut_leaves_the_old_note_or_the_new_one) {
  ModelDisk before;
  must(before.mkdir("/run"));
  must(before.fsync_dir("/"));
  write_built_step(before, "/run", small_step(7, 3));
  const auto workload = [](CutRun& run) {
    for (int i = 1; i <= 3; ++i) {
      must(annotate_checkpoint(opened("/run", run.disk()), 7, 3, {{"x", i}}));
      run.note("said " + std::to_string(i));
    }
  };
  const auto oracle = [](ModelDisk& disk, const CutPoint& point) -> std::string {
    const Result<StepNotes> notes = read_step_notes(opened("/run", disk), 7);
    if (!notes.ok()) return std::string(notes.status().message());
    const double x = notes->empty() ? 0 : notes->at(3).values.at("x");
    const auto said = static_cast<double>(point.count("said"));
    return x == said || x == said + 1 ? "" : "the note has lost what was said";
  };
  const SweepReport report = for_each_cut(workload, oracle, {.start = before.snapshot()});
  EXPECT_EQ(report.violation_count, 0U) << report.text();
  report.record("notes_");
}

}  // namespace
}  // namespace stoker::testing
