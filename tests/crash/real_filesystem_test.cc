// Power cuts under ext4, XFS and btrfs: saves, rewinds, retention, links and notes through the real
// Checkpointer, replayed from the block writes that they caused.
#include <gtest/gtest.h>

#include <deque>

#include "checkpoint/notes.h"
#include "crash/recorded_cut.h"
#include "support/mutant_file_ops.h"

namespace stoker::testing {
namespace {

constexpr std::uint64_t kNoteStep = 1;

std::string mark_of(const char* what, const SavedStep& saved) {
  return std::string(what) + " " + std::to_string(saved.step) + " " + std::to_string(saved.version);
}

/// A run that keeps two checkpoints, is rewound by one in each of its lives, and takes notes.
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
    note_("annotating");
    const std::map<std::string, double> values = {{"life", static_cast<double>(life)}};
    EXPECT_TRUE(annotate_checkpoint(place_.ops, place_.directory, kNoteStep, 1, values).ok());
    note_("annotated");
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

/// The checkpoints, and the note of the last life that took one.
std::string run_holds(const CheckpointPlace& place, const CutPoint& point) {
  const auto begun = static_cast<double>(point.count("annotating"));
  const auto ended = static_cast<double>(point.count("annotated"));
  if (begun > 0) {
    const Result<StepNotes> notes = read_step_notes(place.ops, place.directory, kNoteStep);
    if (!notes.ok()) return "the note: " + std::string(notes.status().message());
    const double found = notes->empty() ? 0 : notes->begin()->second.values.at("life") + 1;
    if (found < ended || found > begun) return "the note is of life " + std::to_string(found - 1);
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
