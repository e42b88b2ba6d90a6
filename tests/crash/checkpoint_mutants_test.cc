// Commits and retention with a mistake in them: the oracle must find each.
#include <gtest/gtest.h>

#include <algorithm>

#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/opened.h"
#include "crash/crash_scenarios.h"
#include "io/files/forwarding_file_ops.h"
#include "support/mutant_file_ops.h"

namespace stoker::testing {
namespace {

using Mutation = std::function<void(MutantFileOps&)>;

/// Fewer states suffice to find a mistake than to find none.
std::size_t violations_of(const SavingWorkload& workload, const Mutation& mutation) {
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

/// The mistake is on one rank of three, which is not the one that commits.
std::size_t violations_on_a_rank(const Mutation& mutation) {
  const SweepReport report = for_each_cut(
      [&](CutRun& run) {
        MutantFileOps ops(run.disk());
        mutation(ops);
        save_on_ranks(run, {.saves = {{.step = 10}, {.step = 20}},
                            .ops = [&](std::uint32_t rank) -> FileOps& {
                              return rank == 1 ? static_cast<FileOps&>(ops) : run.disk();
                            }});
        EXPECT_GT(ops.hit_count(), 0) << "the mutant changed nothing";
      },
      checkpoints_hold, {.cut = {}, .start = empty_run(), .violations_max = 1});
  return report.violation_count;
}

Mutation without(const char* op, const char* suffix) {
  return [=](MutantFileOps& ops) {
    ops.drop([=](const MutantCall& call) { return call.op == op && call.path.ends_with(suffix); });
  };
}

Mutation without_staging_sync() {
  return [](MutantFileOps& ops) {
    ops.drop([](const MutantCall& call) {
      return call.op == "fsync_dir" && call.path.find("/owner-") != std::string::npos &&
             call.path.find("/step-") != std::string::npos;
    });
  };
}

bool is_step_rename(const MutantCall& call) {
  return call.op == "rename_noreplace" && call.path.find("/step-") != std::string::npos;
}

bool is_file_sync(const MutantCall& call) {
  return call.op == "fdatasync" || call.op == "fsync";
}

TEST(CheckpointMutantsTest, the_commit_itself_is_not_found_out) {
  for (const auto& workload : {save_three, save_keeping_one}) {
    const SweepReport report = for_each_cut([&](CutRun& run) { workload(run, run.disk()); },
                                            checkpoints_hold, {.cut = {}, .start = empty_run()});
    EXPECT_EQ(report.violation_count, 0U) << report.text();
  }
}

TEST(CheckpointMutantsTest, data_without_a_sync_is_found_out) {
  EXPECT_GT(violations_of(save_three, without("fdatasync", ".safetensors")), 0U);
  EXPECT_GT(violations_of(save_three, without("fsync", "/manifest.json")), 0U);
}

TEST(CheckpointMutantsTest, names_without_a_sync_are_found_out) {
  EXPECT_GT(violations_of(save_three, without("fsync_dir", "/checkpoints")), 0U);
  EXPECT_GT(violations_of(save_three, without("fsync_dir", "/owner-workload")), 0U);
  EXPECT_GT(violations_of(save_three, without("fsync_dir", "/run")), 0U);
  EXPECT_GT(violations_of(save_three, without_staging_sync()), 0U);
}

TEST(CheckpointMutantsTest, a_rank_that_does_not_sync_is_found_out) {
  EXPECT_GT(violations_on_a_rank(without("fdatasync", ".safetensors")), 0U);
}

TEST(CheckpointMutantsTest, a_rename_before_the_syncs_is_found_out) {
  const Mutation rename_first = [](MutantFileOps& ops) { ops.defer(is_file_sync, is_step_rename); };
  EXPECT_GT(violations_of(save_three, rename_first), 0U);
}

// The manifest is written, durable and in its place, while the parts it speaks of are not yet.
TEST(CheckpointMutantsTest, a_manifest_before_its_parts_is_found_out) {
  const Mutation manifest_first = [](MutantFileOps& ops) {
    ops.defer(
        [](const MutantCall& call) {
          return is_file_sync(call) && !call.path.ends_with("/manifest.json");
        },
        [](const MutantCall& call) {
          return call.op == "fsync_dir" && call.path.ends_with("/checkpoints");
        });
  };
  EXPECT_GT(violations_of(save_three, manifest_first), 0U);
  EXPECT_GT(violations_of(
                [](CutRun& run, FileOps& ops) {
                  save_on_ranks(run, {.saves = {{.step = 10}, {.step = 20}},
                                      .ops = [&](std::uint32_t) -> FileOps& { return ops; }});
                },
                manifest_first),
            0U);
}

TEST(CheckpointMutantsTest, latest_before_its_checkpoint_is_found_out) {
  const Mutation latest_first = [](MutantFileOps& ops) {
    ops.defer(is_step_rename, [](const MutantCall& call) {
      return call.op == "rename" && call.path.ends_with("/latest");
    });
  };
  EXPECT_GT(violations_of(save_three, latest_first), 0U);
}

TEST(CheckpointMutantsTest, an_acknowledgement_before_the_commit_is_found_out) {
  const SweepReport report = for_each_cut(
      [](CutRun& run) {
        CrashSaver saver(run.disk(), run.disk(), &run, {.acknowledge_early = true});
        EXPECT_TRUE(saver.save({.step = 10}).ok());
        EXPECT_TRUE(saver.close().ok());
      },
      checkpoints_hold, {.cut = {}, .start = empty_run(), .violations_max = 1});
  EXPECT_GT(report.violation_count, 0U);
}

// Unlinks before the rename into the owner's directory is durable: a cut leaves half a checkpoint
// in its place.
TEST(CheckpointMutantsTest, removal_before_the_rename_is_durable_is_found_out) {
  const Mutation no_sync = [](MutantFileOps& ops) {
    ops.drop([has_moved = std::make_shared<bool>(false)](const MutantCall& call) {
      if (call.op == "unlink") *has_moved = false;
      if (call.op == "rename" && (call.path.find("/retire-") != std::string::npos ||
                                  call.path.find("/remove-") != std::string::npos))
        *has_moved = true;
      return *has_moved && call.op == "fsync_dir";
    });
  };
  EXPECT_GT(violations_of(save_keeping_one, no_sync), 0U);
}

/// Reads no note until the sweep is over.
class ForgetfulFileOps final : public ForwardingFileOps {
 public:
  explicit ForgetfulFileOps(FileOps& target) : ForwardingFileOps(target) {}
  Result<UniqueFd> open(const PathAt& path, int flags) override {
    if (!is_swept_ && path.text().find("/notes/step-") != std::string::npos)
      return Status(Code::not_found, "not looked at");
    return ForwardingFileOps::open(path, flags);
  }
  void reached(std::string_view point) override {
    ForwardingFileOps::reached(point);
    if (point == "takeover.swept") is_swept_ = true;
  }

 private:
  bool is_swept_ = false;
};

TEST(CheckpointMutantsTest, a_sweep_that_reads_no_notes_is_found_out) {
  const std::vector<CrashScenario> all = crash_scenarios();
  const auto scenario =
      std::ranges::find(all, "takeover in retention", [](const auto& one) { return one.name; });
  ASSERT_NE(scenario, all.end());
  const SweepReport report = for_each_cut(
      [&](CutRun& run) {
        ForgetfulFileOps ops(run.disk());
        scenario->workload(run, ops);
      },
      checkpoints_hold, {.cut = {}, .start = scenario->start, .violations_max = 1});
  EXPECT_GT(report.violation_count, 0U);
}

TEST(CheckpointMutantsTest, removal_before_the_next_save_is_found_out) {
  const SweepReport report = for_each_cut(
      [](CutRun& run) {
        CrashSaver saver(run.disk(), run.disk(), &run, {});
        EXPECT_TRUE(saver.save({.step = 10}).ok());
        const OwnerDirectory owner(opened(kRunDirectory, run.disk()), "workload");
        const Result<Catalog> catalog = list_checkpoints(owner.directory());
        EXPECT_TRUE(remove_checkpoint(owner, *catalog->find(step_name(10))).ok());
        EXPECT_TRUE(saver.save({.step = 20}).ok());
        note_may_go(run, {.step = 10});
        EXPECT_TRUE(saver.close().ok());
      },
      checkpoints_hold, {.cut = {}, .start = empty_run(), .violations_max = 1});
  EXPECT_GT(report.violation_count, 0U);
}

}  // namespace
}  // namespace stoker::testing
