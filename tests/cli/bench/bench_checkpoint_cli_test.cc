// `stoker bench checkpoint`.
#include "cli/checkpoint_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class BenchCheckpointCliTest : public ::testing::Test {
 protected:
  std::vector<std::string> bench(const std::vector<std::string>& more = {}) const {
    std::vector<std::string> args = {"bench", "checkpoint", dir_.path(), "--size",
                                     "8MiB",  "--saves",    "3"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }
  TempDir dir_;
};

TEST_F(BenchCheckpointCliTest, reports_saves_and_restores_and_leaves_nothing) {
  const Ran ran = run_stoker({.args = bench({"--json"})});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json report = json::parse(ran.out);
  EXPECT_EQ(report["size_bytes"], 8 << 20);
  ASSERT_EQ(report["saves"].size(), 3U);
  for (const json& save : report["saves"]) {
    EXPECT_GT(save["blocked_ns"], 0);
    EXPECT_GE(save["durable_ns"], save["blocked_ns"]);
    EXPECT_GT(save["durable_bytes_per_s"], 0);
  }
  EXPECT_GT(report["restore_cold"]["bytes_per_s"], 0);
  EXPECT_GT(report["restore_warm"]["bytes_per_s"], 0);
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCheckpointCliTest, table_has_a_row_for_each_figure) {
  const Ran ran = run_stoker({.args = bench()});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* part : {"save, blocked", "save, durable", "restore, cold", "restore, warm"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  EXPECT_EQ(ran.err, "");
}

TEST_F(BenchCheckpointCliTest, saves_and_restores_use_the_engine_that_the_environment_names) {
  const auto with_engine = [&](const char* name, const std::function<bool()>& in_child) {
    return run_stoker(
        {.args = bench(), .environment = {{"STOKER_ENGINE", name}}, .in_child = in_child});
  };
  const Ran first = with_engine("sync", die_of_io_uring);
  if (first.exit_code == kCannotSetUp) GTEST_SKIP() << "this kernel takes no seccomp filter";
  EXPECT_EQ(first.exit_code, 0) << first.signal << first.err;
  EXPECT_EQ(with_engine("threads", die_of_io_uring).exit_code, 0);
  EXPECT_EQ(with_engine("auto", forbid_io_uring).exit_code, 0) << "falls back";
  const Ran refused = with_engine("uring", forbid_io_uring);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(refused.err, {"STOKER_ENGINE=uring", "not permitted", "threads"}))
      << refused.err;
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCheckpointCliTest, interrupt_exits_with_130_and_leaves_nothing) {
  for (const char* at : {"[1/", "save 1", "save 3", "restore, cold"}) {
    SCOPED_TRACE(at);
    const Ran ran = run_stoker(
        {.args = bench({"-v", "--json"}), .on_err_line = [&](pid_t process, std::string_view line) {
           if (line.find(at) != std::string_view::npos) ::kill(process, SIGINT);
         }});
    EXPECT_EQ(dir_.entry_count(), 0);
    if (ran.exit_code == 0) continue;  // over before the signal was seen
    EXPECT_EQ(ran.exit_code, 130) << ran.signal << ran.err;
    EXPECT_EQ(ran.out, "") << "partial results are not results";
  }
}

TEST_F(BenchCheckpointCliTest, next_run_removes_what_a_killed_one_left) {
  const Ran killed =
      run_stoker({.args = bench({"-v"}), .on_err_line = [](pid_t process, std::string_view line) {
                    if (line.find("save 3") != std::string_view::npos) ::kill(process, SIGKILL);
                  }});
  ASSERT_EQ(killed.signal, SIGKILL);
  EXPECT_EQ(dir_.entry_count(), 1);
  const Ran ran = run_stoker({.args = bench()});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCheckpointCliTest, sizes_that_cannot_be_are_refused_before_a_byte_is_written) {
  const auto with_size = [&](const char* size) {
    return run_stoker({.args = {"bench", "checkpoint", dir_.path(), "--size", size}});
  };
  const Ran small = with_size("1KiB");
  EXPECT_EQ(small.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(small.err, {"--size", "too small"})) << small.err;
  const Ran large = with_size("1PiB");
  EXPECT_EQ(large.exit_code, 1);
  EXPECT_TRUE(
      is_one_line_with(large.err, {"free", "two checkpoints", "--size 1 PiB", "another directory"}))
      << large.err;
  EXPECT_EQ(with_size("many").exit_code, 2);
  EXPECT_EQ(run_stoker({.args = bench({"--saves", "0"})}).exit_code, 2);
  EXPECT_EQ(dir_.entry_count(), 0);
}

}  // namespace
}  // namespace stoker::testing
