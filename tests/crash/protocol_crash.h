#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "support/cut_sweep.h"
#include "support/model_disk_text.h"
#include "support/mutant_file_ops.h"

namespace stoker::testing {

/// Wraps the disk in a mutant, or in nothing.
using Mutation = std::function<void(MutantFileOps&)>;

inline const Mutation kNone = [](MutantFileOps&) {};
inline const Mutation kNoFileSync = [](MutantFileOps& ops) {
  ops.drop([](const MutantCall& call) { return call.op == "fsync" || call.op == "fdatasync"; });
};
inline const Mutation kNoDirectorySync = [](MutantFileOps& ops) {
  ops.drop([](const MutantCall& call) { return call.op == "fsync_dir"; });
};
/// File syncs come after the rename that they should come before.
inline const Mutation kRenameFirst = [](MutantFileOps& ops) {
  ops.defer([](const MutantCall& call) { return call.op == "fsync" || call.op == "fdatasync"; },
            [](const MutantCall& call) { return call.op.starts_with("rename"); });
};

inline std::string text_of_version(int version) {
  // Three blocks, the last one partly used: long enough to be torn.
  return "version " + std::to_string(version) +
         std::string(2 * kModelBlockBytes + 900, static_cast<char>('a' + version));
}

/// Sweeps a protocol that works in /run.
class ProtocolCrashTest : public ::testing::Test {
 protected:
  /// A disk with an empty directory /run, durable.
  static SweepOptions start() {
    ModelDisk disk;
    EXPECT_TRUE(disk.mkdir("/run").ok());
    EXPECT_TRUE(disk.fsync_dir("/").ok());
    return {.cut = {.exhaustive_max = 4096, .single_max = 64, .random_count = 300},
            .start = disk.snapshot()};
  }

  /// Sweeps with a mutant, and says whether it was one.
  static SweepReport sweep(const std::function<void(CutRun&, FileOps&)>& workload,
                           const Oracle& oracle, const Mutation& mutation) {
    int hits = 0;
    const SweepReport report = for_each_cut(
        [&](CutRun& run) {
          MutantFileOps ops(run.disk());
          mutation(ops);
          workload(run, ops);
          hits = ops.hit_count();
        },
        oracle, start());
    EXPECT_EQ(hits > 0, &mutation != &kNone);
    return report;
  }

  static void expect_sound(const SweepReport& report, std::size_t states_min,
                           const std::string& prefix = "") {
    EXPECT_EQ(report.violation_count, 0U) << report.text();
    EXPECT_GE(report.state_count, states_min) << report.text();
    report.record(prefix);
  }
};

}  // namespace stoker::testing
