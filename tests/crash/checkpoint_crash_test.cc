// Power cuts at every operation of saving checkpoints, and mutants of the commit that the oracle
// must find.
#include "crash/checkpoint_crash.h"

#include <gtest/gtest.h>

#include "checkpoint/names.h"
#include "checkpoint/notes.h"
#include "checkpoint/step_removal.h"
#include "support/model_disk_text.h"
#include "support/mutant_file_ops.h"

namespace stoker::testing {
namespace {

/// A workload that saves through `ops`, which is the run's disk or a mutant of it.
using SavingWorkload = std::function<void(CutRun&, FileOps&)>;

ModelState empty_run() {
  ModelDisk disk;
  EXPECT_TRUE(disk.mkdir("/run").ok());
  EXPECT_TRUE(disk.fsync_dir("/").ok());
  return disk.snapshot();
}

SweepReport sweep(const SavingWorkload& workload, const ModelState& start = empty_run()) {
  return for_each_cut(
      [&](CutRun& run) { workload(run, run.disk()); }, checkpoints_hold,
      {.cut = {.exhaustive_max = 128, .single_max = 48, .random_count = 48}, .start = start});
}

void expect_sound(const SweepReport& report, std::size_t states_min) {
  EXPECT_EQ(report.violation_count, 0U) << report.text();
  EXPECT_GE(report.state_count, states_min) << report.text();
  report.record("");
}

/// Fewer states suffice to find a mistake than to find none.
std::size_t violations_of(const SavingWorkload& workload,
                          const std::function<void(MutantFileOps&)>& mutation) {
  const SweepReport report = for_each_cut(
      [&](CutRun& run) {
        MutantFileOps ops(run.disk());
        mutation(ops);
        workload(run, ops);
        EXPECT_GT(ops.hit_count(), 0) << "the mutant changed nothing";
      },
      checkpoints_hold, {.cut = {}, .start = empty_run(), .violations_max = 1});
  return report.violation_count;
}

void save_three(CutRun& run, FileOps& ops) {
  CrashSaver saver(run.disk(), ops, &run, {});
  for (const std::uint64_t step : {10, 20, 30}) {
    const Status saved = saver.save({.step = step});
    EXPECT_TRUE(saved.ok()) << saved.message();
  }
  EXPECT_TRUE(saver.close().ok());
}

void save_keeping_one(CutRun& run, FileOps& ops) {
  CrashSaver saver(run.disk(), ops, &run, {.retention = RetentionRules{.keep_last = 1}});
  for (std::uint64_t step = 10; step <= 30; step += 10) {
    if (step > 10) note_may_go(run, {.step = step - 10});
    const Status saved = saver.save({.step = step});
    EXPECT_TRUE(saved.ok()) << saved.message();
  }
  EXPECT_TRUE(saver.close().ok());
}

TEST(CheckpointCrashTest, saves_one_after_the_other_survive_a_cut_anywhere) {
  expect_sound(sweep(save_three), 1000);
}

TEST(CheckpointCrashTest, retention_never_takes_what_it_should_keep) {
  expect_sound(sweep(save_keeping_one), 1000);
}

TEST(CheckpointCrashTest, a_rewound_run_keeps_what_it_saves_again_under_another_name) {
  const SavingWorkload rewind = [](CutRun& run, FileOps& ops) {
    std::uint64_t first = 0;
    {
      CrashSaver saver(run.disk(), ops, &run, {});
      EXPECT_TRUE(saver.save({.step = 10}).ok());
      first = saver.generation();
      EXPECT_TRUE(saver.save({.step = 20}).ok());
      EXPECT_TRUE(saver.close().ok());
    }
    const CheckpointParent parent{.step = 10, .generation = first};
    CrashSaver saver(run.disk(), ops, &run, {.token = "rewound", .parent = parent});
    EXPECT_TRUE(saver.save({.step = 20, .version = 2}).ok());
    EXPECT_TRUE(saver.close().ok());
  };
  expect_sound(sweep(rewind), 500);
}

TEST(CheckpointCrashTest, what_a_dead_writer_left_is_swept_and_harms_nobody) {
  ModelDisk disk(empty_run());
  {
    CrashSaver saver(disk, disk, nullptr, {});
    ASSERT_TRUE(saver.save({.step = 10}).ok());
    ASSERT_TRUE(saver.close().ok());
  }
  const std::string owner = kRunDirectory + "/" + owner_name("dead");
  ASSERT_TRUE(disk.mkdir(owner).ok());
  ASSERT_TRUE(disk.mkdir(owner + "/step-1").ok());
  ASSERT_TRUE(write_text(disk, owner + "/step-1/rank-00000.safetensors", "half").ok());
  ASSERT_TRUE(disk.mkdir(kRunDirectory + "/" + trash_name("step-1", "x")).ok());
  const SavingWorkload takeover = [](CutRun& run, FileOps& ops) {
    run.note("began 10 1");
    run.note("acknowledged 10 1");
    CrashSaver saver(run.disk(), ops, &run, {.token = "successor"});
    EXPECT_TRUE(saver.save({.step = 20}).ok());
    EXPECT_TRUE(saver.close().ok());
  };
  for (const CutState& state : disk.cut({.exhaustive_max = 1, .single_max = 0, .random_count = 0}))
    expect_sound(sweep(takeover, state.disk), 300);
}

TEST(CheckpointCrashTest, a_directory_that_somebody_has_just_made_is_made_durable) {
  const SavingWorkload fresh = [](CutRun& run, FileOps& ops) {
    EXPECT_TRUE(ops.mkdir(kRunDirectory).ok());
    save_three(run, ops);
  };
  expect_sound(sweep(fresh), 1000);
}

TEST(CheckpointCrashTest, notes_are_the_old_ones_or_the_new_ones) {
  const SavingWorkload annotate = [](CutRun& run, FileOps& ops) {
    CrashSaver saver(run.disk(), ops, &run, {});
    EXPECT_TRUE(saver.save({.step = 10}).ok());
    for (int loss = 1; loss <= 3; ++loss) {
      run.note("annotating");
      const std::map<std::string, double> values = {{"loss", loss}};
      EXPECT_TRUE(annotate_checkpoint(ops, kRunDirectory, 10, saver.generation(), values).ok());
      run.note("annotated");
    }
    EXPECT_TRUE(saver.close().ok());
  };
  const Oracle notes_hold = [](ModelDisk& disk, const CutPoint& point) -> std::string {
    const auto began = static_cast<double>(point.count("annotating"));
    const auto ended = static_cast<double>(point.count("annotated"));
    if (began == 0) return "";
    const Result<StepNotes> notes = read_step_notes(disk, kRunDirectory, 10);
    if (!notes.ok()) return std::string(notes.status().message());
    const double found = notes->empty() ? 0 : notes->begin()->second.values.at("loss");
    if (found < ended || found > began) return "the note of " + std::to_string(found);
    return checkpoints_hold(disk, point);
  };
  const SweepReport report = for_each_cut([&](CutRun& run) { annotate(run, run.disk()); },
                                          notes_hold, {.cut = {}, .start = empty_run()});
  expect_sound(report, 300);
}

TEST(CheckpointCrashTest, a_commit_without_a_sync_is_found_out) {
  const auto ends_with = [](const char* op, const char* suffix) {
    return [=](MutantFileOps& ops) {
      ops.drop(
          [=](const MutantCall& call) { return call.op == op && call.path.ends_with(suffix); });
    };
  };
  EXPECT_GT(violations_of(save_three, ends_with("fdatasync", ".safetensors")), 0U);
  EXPECT_GT(violations_of(save_three, ends_with("fsync", "/manifest.json")), 0U);
  EXPECT_GT(violations_of(save_three, ends_with("fsync_dir", "/checkpoints")), 0U);
  EXPECT_GT(violations_of(save_three, ends_with("fsync_dir", "/owner-workload")), 0U);
  EXPECT_GT(violations_of(save_three, ends_with("fsync_dir", "/run")), 0U);
  const auto staging = [](MutantFileOps& ops) {
    ops.drop([](const MutantCall& call) {
      return call.op == "fsync_dir" && call.path.find("/owner-workload/") != std::string::npos;
    });
  };
  EXPECT_GT(violations_of(save_three, staging), 0U);
}

TEST(CheckpointCrashTest, a_commit_in_the_wrong_order_is_found_out) {
  const auto is_step_rename = [](const MutantCall& call) {
    return call.op == "rename_noreplace" && call.path.find("/step-") != std::string::npos;
  };
  const auto rename_first = [&](MutantFileOps& ops) {
    ops.defer([](const MutantCall& call) { return call.op == "fdatasync" || call.op == "fsync"; },
              is_step_rename);
  };
  EXPECT_GT(violations_of(save_three, rename_first), 0U);
  const auto latest_first = [&](MutantFileOps& ops) {
    ops.defer(is_step_rename, [](const MutantCall& call) {
      return call.op == "rename" && call.path.ends_with("/latest");
    });
  };
  EXPECT_GT(violations_of(save_three, latest_first), 0U);
}

TEST(CheckpointCrashTest, an_acknowledgement_before_the_commit_is_found_out) {
  const SavingWorkload early = [](CutRun& run, FileOps& ops) {
    CrashSaver saver(run.disk(), ops, &run, {.acknowledge_early = true});
    EXPECT_TRUE(saver.save({.step = 10}).ok());
    EXPECT_TRUE(saver.close().ok());
  };
  EXPECT_GT(sweep(early).violation_count, 0U);
}

TEST(CheckpointCrashTest, retention_in_the_wrong_order_is_found_out) {
  // Unlinks before the rename to .trash is durable: a cut leaves half a checkpoint in its place.
  const auto no_fence = [](MutantFileOps& ops) {
    ops.drop([renamed = std::make_shared<bool>(false)](const MutantCall& call) {
      const bool is_parent_sync = *renamed && call.op == "fsync_dir";
      *renamed = call.op.starts_with("rename") && call.path.find(".trash-") != std::string::npos;
      return is_parent_sync;
    });
  };
  EXPECT_GT(violations_of(save_keeping_one, no_fence), 0U);
  // Removes the old one before the new one is there.
  const SavingWorkload delete_first = [](CutRun& run, FileOps& ops) {
    CrashSaver saver(run.disk(), ops, &run, {});
    EXPECT_TRUE(saver.save({.step = 10}).ok());
    EXPECT_TRUE(remove_checkpoint(ops, kRunDirectory, step_name(10)).ok());
    EXPECT_TRUE(saver.save({.step = 20}).ok());
    note_may_go(run, {.step = 10});
    EXPECT_TRUE(saver.close().ok());
  };
  EXPECT_GT(sweep(delete_first).violation_count, 0U);
}

}  // namespace
}  // namespace stoker::testing
