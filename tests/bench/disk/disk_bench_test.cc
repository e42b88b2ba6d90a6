#include "bench/disk/disk_bench.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "bench/cliff/cliff_bench.h"
#include "bench/scratch.h"
#include "support/faulty_file_ops.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using ::stoker::testing::FaultyFileOps;
using ::stoker::testing::TempDir;

class DiskBenchTest : public ::testing::Test {
 protected:
  DiskBenchOptions small_options() const {
    return {.path = dir_.path(),
            .size_bytes = 8 << 20,
            .time_per_case = std::chrono::milliseconds(2),
            .small_file_count_max = 3};
  }

  const TempDir dir_;
};

TEST_F(DiskBenchTest, every_engine_measures_every_case_and_leaves_nothing) {
  for (const EngineKind engine : {EngineKind::uring, EngineKind::threads, EngineKind::sync}) {
    SCOPED_TRACE(engine_kind_name(engine));
    if (!make_engine(engine, {.depth = 2}).ok()) continue;  // a container may forbid io_uring
    DiskBenchOptions options = small_options();
    options.engine = engine;
    std::size_t steps = 0;
    const auto count = [&](const Progress& progress) { steps += progress.step == steps ? 1 : 0; };
    const Result<DiskReport> report = run_disk_bench(options, posix_file_ops(), count, {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->engine, engine_kind_name(engine));
    EXPECT_EQ(report->results.size(), make_disk_cases(options).size());
    EXPECT_EQ(steps, report->results.size());
    for (const DiskResult& result : report->results) {
      if (!result.skipped.empty()) continue;
      EXPECT_GT(result.bytes_per_s, 0) << case_kind_name(result.kind);
      EXPECT_GT(result.p50_ns, 0u) << case_kind_name(result.kind);
      EXPECT_LE(result.p50_ns, result.p99_ns) << case_kind_name(result.kind);
    }
    EXPECT_EQ(dir_.entry_count(), 0);
  }
}

TEST_F(DiskBenchTest, every_policy_can_be_asked_for_by_name) {
  for (const std::string_view name : {"automatic", "buffered", "drop_behind", "mmap"}) {
    SCOPED_TRACE(name);
    DiskBenchOptions options = small_options();
    options.policy = *parse_access_policy(name);
    const Result<DiskReport> report = run_disk_bench(options, posix_file_ops(), {}, {});
    ASSERT_TRUE(report.ok()) << report.status().message();
    for (const DiskResult& result : report->results) EXPECT_EQ(result.policy.name(), name);
  }
}

// Fails each file operation in turn until none is left to fail.
TEST_F(DiskBenchTest, any_single_fault_fails_the_run_and_leaves_nothing) {
  DiskBenchOptions options = small_options();
  options.engine = EngineKind::sync;
  options.policy = *parse_access_policy("buffered");
  options.block_bytes = 128 << 10;
  options.depth = 2;
  for (const int error : {EIO, ENOSPC, EINTR}) {
    bool fired = true;
    int fault = 0;
    for (; fired; ++fault) {
      SCOPED_TRACE(std::to_string(error) + " at call " + std::to_string(fault));
      FaultyFileOps ops(posix_file_ops(), fault, error);
      const Result<DiskReport> report = run_disk_bench(options, ops, {}, {});
      fired = ops.fired();
      const std::string& op = ops.failed_op();
      // Only the sweep, which begins with the first call, and the clean-up do such things.
      if (fault == 0 || op == "list_names" || op == "info_of") {
        sweep_scratch(posix_file_ops(), dir_.path());
        continue;
      }
      const bool is_repeated =
          error == EINTR && (op == "pwrite" || op == "fallocate" || op == "ftruncate");
      if (fired && !is_repeated) {
        EXPECT_EQ(report.status().os_error(), error) << op;
      }
      EXPECT_EQ(dir_.entry_count(), 0) << op;
    }
    EXPECT_GT(fault, 10) << "the faults did not reach the benchmark";
  }
}

TEST_F(DiskBenchTest, policy_that_the_filesystem_refuses_is_skipped_unless_asked_for) {
  /// Says what tmpfs said before Linux 6.6, and what some network filesystems say.
  class NoDirect final : public FaultyFileOps {
   public:
    NoDirect() : FaultyFileOps(posix_file_ops(), kNever, 0) {}
    Result<UniqueFd> open(const PathAt& path, int flags) override {
      if ((flags & O_DIRECT) != 0) return Status::from_errno(EINVAL, "open", path.text());
      return FaultyFileOps::open(path, flags);
    }
  };
  NoDirect ops;
  DiskBenchOptions options = small_options();
  Result<DiskReport> report = run_disk_bench(options, ops, {}, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  std::size_t skipped = 0;
  for (const DiskResult& result : report->results) {
    EXPECT_EQ(result.skipped.empty(), result.policy.name() != "direct") << result.skipped;
    skipped += result.skipped.empty() ? 0 : 1;
  }
  EXPECT_EQ(skipped, 11u) << "one write, one sequential and nine random reads";

  options.policy = *parse_access_policy("direct");
  report = run_disk_bench(options, ops, {}, {});
  EXPECT_EQ(report.status().code(), Code::unsupported);
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(DiskBenchTest, stop_request_at_any_case_is_no_result_and_leaves_nothing) {
  DiskBenchOptions options = small_options();
  options.depth = 4;  // little memory to touch each time
  const std::size_t count = make_disk_cases(options).size();
  for (std::size_t at = 0; at < count; ++at) {
    SCOPED_TRACE(at);
    std::stop_source stop;
    const auto interrupt = [&](const Progress& progress) {
      if (progress.step == at) stop.request_stop();
    };
    const Result<DiskReport> report =
        run_disk_bench(options, posix_file_ops(), interrupt, stop.get_token());
    EXPECT_EQ(report.status().code(), Code::cancelled);
    EXPECT_EQ(dir_.entry_count(), 0);
  }
}

TEST_F(DiskBenchTest, policy_that_cannot_do_the_case_is_misuse) {
  DiskBenchOptions options = small_options();
  options.policy = *parse_access_policy("mmap");
  options.only = {CaseKind::seq_write};
  EXPECT_EQ(run_disk_bench(options, posix_file_ops(), {}, {}).status().code(),
            Code::invalid_argument);
}

TEST_F(DiskBenchTest, cliff_run_counts_its_windows_and_leaves_nothing) {
  const CliffBenchOptions options{.path = dir_.path(), .bytes_max = 64 << 20};
  const Result<CliffReport> report = run_cliff_bench(options, posix_file_ops(), {}, {});
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->window_bytes, 4u << 20);
  EXPECT_LE(report->windows.size(), 16u);
  EXPECT_EQ(report->bytes_written(), report->windows.size() * (4u << 20));
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(DiskBenchTest, cliff_with_too_few_bytes_is_misuse) {
  const CliffBenchOptions options{.path = dir_.path(), .bytes_max = 1 << 20};
  EXPECT_EQ(run_cliff_bench(options, posix_file_ops(), {}, {}).status().code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
