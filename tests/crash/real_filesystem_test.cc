// Power cuts under ext4, XFS and btrfs: saves, rewinds, retention, links and notes through the real
// CheckpointSaver, replayed from the block writes that they caused.
#include <gtest/gtest.h>

#include <deque>
#include <sstream>

#include "checkpoint/catalog/notes.h"
#include "checkpoint/opened.h"
#include "crash/recorded_cut.h"
#include "support/mutant_file_ops.h"

namespace stoker::testing {
namespace {

/// A run that keeps two checkpoints, is rewound by one in each of its lives, takes notes and pins.
class RewoundRun {
 public:
  RewoundRun(const CheckpointPlace& place, const CrashSaver::Note& note)
      : place_(place), note_(note) {}

  void live(std::uint64_t life) {
    const std::uint64_t first = life * 40;
    CheckpointParent parent;
    {
      CrashSaver saver(place_, note_, options_of(life, "first"));
      save(saver, {.step = first + 10});
      save(saver, {.step = first + 20});
      parent = {.step = first + 20, .generation = saver.generation()};
      save(saver, {.step = first + 30});
      EXPECT_TRUE(saver.close().ok());
    }
    say(parent, life);
    CrashSaver::Options options = options_of(life, "rewound");
    options.parent = parent;
    CrashSaver saver(place_, note_, options);
    note_(mark_of("may go", {.step = first + 30}));  // superseded ones are kept by no rule
    kept_.pop_front();
    save(saver, {.step = first + 30, .version = 2});
    EXPECT_TRUE(saver.close().ok());
  }

 private:
  static CrashSaver::Options options_of(std::uint64_t life, const char* part) {
    return {.token = part + std::to_string(life),
            .retention = RetentionRules{.keep_last = 2},
            .policy = life % 2 == 0 ? CachePolicy::direct : CachePolicy::buffered};
  }

  void say(const CheckpointParent& about, std::uint64_t life) {
    const CheckpointDirectory directory = opened(place_.directory, place_.ops);
    const SavedStep saved{.step = about.step};
    note_(mark_of("annotating", saved));
    const Status annotated = annotate_checkpoint(directory, about.step, about.generation,
                                                 {{"step", static_cast<double>(about.step)}});
    EXPECT_TRUE(annotated.ok()) << annotated.message();
    note_(mark_of("annotated", saved));
    if (life % 2 != 0) return;
    const Status pinned = pin_checkpoint(directory, about.step, about.generation, true);
    EXPECT_TRUE(pinned.ok()) << pinned.message();
    note_(mark_of("pinned", saved));
  }

  void save(CrashSaver& saver, const SavedStep& saved) {
    kept_.push_front(saved);
    if (kept_.size() > 2) {
      note_(mark_of("may go", kept_.back()));
      kept_.pop_back();
    }
    const Status status = saver.save(saved);
    EXPECT_TRUE(status.ok()) << status.message();
  }

  const CheckpointPlace& place_;
  const CrashSaver::Note& note_;
  std::deque<SavedStep> kept_;  // the newest first
};

DiskWorkload lives(std::uint64_t count) {
  return [=](const CheckpointPlace& place, const CrashSaver::Note& note) {
    RewoundRun run(place, note);
    for (std::uint64_t life = 0; life < count; ++life) run.live(life);
  };
}

/// The same of several ranks, two and three in turn.
DiskWorkload lives_of_ranks(std::uint64_t count) {
  return [=](const CheckpointPlace& place, const CrashSaver::Note& note) {
    for (std::uint64_t life = 0; life < count; ++life) {
      const std::uint64_t first = life * 40;
      RanksPlan plan{.rank_count = 2 + static_cast<std::uint32_t>(life % 2),
                     .saves = {{.step = first + 10}, {.step = first + 20}, {.step = first + 30}},
                     .session = "first" + std::to_string(life),
                     .retention = {.keep_last = 2},
                     .policy = life % 2 == 0 ? CachePolicy::direct : CachePolicy::buffered};
      if (life > 0) {  // what the life before has kept
        note(mark_of("may go", {.step = first - 20}));
        note(mark_of("may go", {.step = first - 10, .version = 2}));
      }
      const std::uint64_t generation = save_on_ranks(place, note, plan);
      note(mark_of("may go", {.step = first + 30}));
      plan.rank_count = 5 - plan.rank_count;
      plan.saves = {{.step = first + 30, .version = 2}};
      plan.session = "rewound" + std::to_string(life);
      plan.parent = {.step = first + 20, .generation = generation - 1};
      save_on_ranks(place, note, plan);
    }
  };
}

/// The checkpoints; and of each note that was written, or was being written, that it can be read
/// and says that.
std::string run_holds(const CheckpointPlace& place, const CutPoint& point) {
  for (const std::string& mark : point.marks) {
    std::istringstream text(mark);
    std::string verb;
    std::uint64_t step = 0;
    text >> verb >> step;
    if (verb != "annotating" && verb != "annotated") continue;
    const Result<StepNotes> notes = read_step_notes(opened(place.directory, place.ops), step);
    if (!notes.ok()) return "the note: " + std::string(notes.status().message());
    if (notes->empty() && verb == "annotating") continue;
    if (notes->empty() || notes->begin()->second.values.at("step") != static_cast<double>(step))
      return "the note of " + std::to_string(step) + " does not say what was said";
  }
  return checkpoints_hold_in(place, point);
}

class RealFilesystemTest : public ::testing::TestWithParam<FilesystemKind> {};

TEST_P(RealFilesystemTest, what_was_acknowledged_survives_a_cut_between_any_two_block_writes) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(GetParam());
  SKIP_UNLESS_SUPPORTED(disk);
  const Result<Recording> recording = record(**disk, lives(is_long_run() ? 12 : 2));
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  const ReplayReport report = replay(**disk, *recording, run_holds, {.cut_count = cut_count()});
  EXPECT_EQ(report.violation_count, 0U) << report.text();
  EXPECT_EQ(report.cut_count, cut_count()) << report.text();
  report.record();
}

TEST_P(RealFilesystemTest, what_several_ranks_have_committed_survives_a_cut_as_well) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(GetParam());
  SKIP_UNLESS_SUPPORTED(disk);
  const Result<Recording> recording = record(**disk, lives_of_ranks(is_long_run() ? 6 : 2));
  ASSERT_TRUE(recording.ok()) << recording.status().message();
  const std::size_t cuts = is_long_run() ? cut_count() : cut_count() / 2;
  const ReplayReport report = replay(**disk, *recording, run_holds, {.cut_count = cuts});
  EXPECT_EQ(report.violation_count, 0U) << report.text();
  EXPECT_EQ(report.cut_count, cuts) << report.text();
  report.record();
}

/// On ext4 alone: that the tape and the oracle can tell right from wrong needs no three proofs.
std::size_t violations_of(const std::function<void(MutantFileOps&)>& mutation, RecordedDisk& disk) {
  MutantFileOps ops(posix_file_ops());
  mutation(ops);
  const DiskWorkload save_two = [](const CheckpointPlace& place, const CrashSaver::Note& note) {
    CrashSaver saver(place, note, {});
    EXPECT_TRUE(saver.save({.step = 10}).ok());
    EXPECT_TRUE(saver.save({.step = 20}).ok());
    EXPECT_TRUE(saver.close().ok());
  };
  const Result<Recording> recording = record(disk, save_two, ops);
  EXPECT_TRUE(recording.ok()) << recording.status().message();
  EXPECT_GT(ops.hit_count(), 0) << "the mutant changed nothing";
  const std::size_t cuts_max = recording->events.size() + 1;
  return replay(disk, *recording, run_holds, {.cut_count = cuts_max, .violations_max = 1})
      .violation_count;
}

TEST(RealFilesystemMutantTest, a_commit_that_does_not_sync_its_data_is_found_out) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(FilesystemKind::ext4());
  SKIP_UNLESS_SUPPORTED(disk);
  const auto mutation = [](MutantFileOps& ops) {
    ops.drop([](const MutantCall& call) { return call.op == "fdatasync"; });
  };
  EXPECT_GT(violations_of(mutation, **disk), 0U);
}

TEST(RealFilesystemMutantTest, a_commit_that_does_not_sync_directories_is_found_out) {
  const Result<std::unique_ptr<RecordedDisk>> disk = RecordedDisk::make(FilesystemKind::ext4());
  SKIP_UNLESS_SUPPORTED(disk);
  const auto mutation = [](MutantFileOps& ops) {
    ops.drop([](const MutantCall& call) { return call.op == "fsync_dir"; });
  };
  EXPECT_GT(violations_of(mutation, **disk), 0U);
}

INSTANTIATE_TEST_SUITE_P(all, RealFilesystemTest,
                         ::testing::Values(FilesystemKind::ext4(), FilesystemKind::xfs(),
                                           FilesystemKind::btrfs()),
                         [](const auto& kind) { return kind.param.name; });

}  // namespace
}  // namespace stoker::testing
