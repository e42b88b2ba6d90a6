// `stoker bench` when all goes well: results, their form, engines, interruption.
#include <gtest/gtest.h>
#include <pty.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "base/unique_fd.h"
#include "cli/run_command.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class BenchCliTest : public ::testing::Test {
 protected:
  /// A run of some milliseconds, with `more` at the end.
  std::vector<std::string> disk(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"bench",  "disk", "--quick", dir_.path(),
                                     "--size", "8MiB", "--time",  "2ms"};
    args.insert(args.end(), more.begin(), more.end());
    return args;
  }

  const TempDir dir_;
};

TEST_F(BenchCliTest, json_has_the_documented_keys_and_plausible_values) {
  const Ran ran = run_stoker({.args = disk({"--json"})});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "silent unless asked";
  const json root = json::parse(ran.out);
  for (const char* key : {"results", "filesystem", "path", "engine", "size_bytes", "kernel"})
    EXPECT_TRUE(root.contains(key)) << key;
  std::set<std::string> names;
  for (const json& result : root["results"]) {
    names.insert(result["name"]);
    EXPECT_TRUE((std::set<std::string>{"cold", "warm", "n/a"}.contains(result["cache"])));
    if (result.contains("skipped")) continue;
    SCOPED_TRACE(result.dump());
    EXPECT_GT(result["bytes_per_s"].get<double>(), 0);
    EXPECT_GT(result["iops"].get<double>(), 0);
    EXPECT_GT(result["p50_ns"].get<std::uint64_t>(), 0u);
    EXPECT_LE(result["p50_ns"].get<std::uint64_t>(), result["p99_ns"].get<std::uint64_t>());
    EXPECT_GT(result["block_bytes"].get<std::uint64_t>(), 0u);
    EXPECT_GT(result["depth"].get<std::uint64_t>(), 0u);
    if (result["cache"] == "cold") {
      EXPECT_LT(result["resident_before"].get<double>(), 0.01);
    }
    if (result["cache"] == "warm") {
      EXPECT_GT(result["resident_before"].get<double>(), 0.99);
    }
  }
  EXPECT_EQ(names, (std::set<std::string>{"seq_write", "seq_read", "rand_read", "fsync",
                                          "fdatasync", "small_create", "small_read"}));
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCliTest, a_directory_may_follow_a_list_of_cases) {
  const Ran ran = run_stoker(
      {.args = {"bench", "disk", "--quick", "--size", "4MiB", "--time", "2ms", "--policy",
                "drop-behind", "--json", "--only", "seq_write", dir_.path()}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const auto report = nlohmann::json::parse(ran.out, nullptr, false);
  EXPECT_EQ(report["results"][0]["policy"], "drop_behind")
      << "both spellings are taken, one is printed";
}

TEST_F(BenchCliTest, table_has_bars_and_verbose_has_progress) {
  const Ran ran = run_stoker({.args = disk({"-v", "--only", "seq_write,small_read"})});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("█"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("files/s"), std::string::npos) << ran.out;
  EXPECT_NE(ran.err.find("[1/"), std::string::npos) << ran.err;
}

TEST_F(BenchCliTest, the_old_spelling_of_the_directory_works_and_is_not_shown) {
  for (const char* command : {"disk", "cliff", "checkpoint"}) {
    const Ran help = run_stoker({.args = {"bench", command, "--help"}});
    EXPECT_EQ(help.out.find("--path"), std::string::npos) << help.out;
    EXPECT_NE(help.out.find("[DIR]"), std::string::npos) << help.out;
  }
  const Ran ran = run_stoker({.args = {"bench", "disk", "--path", dir_.path(), "--size", "8MiB",
                                       "--time", "2ms", "--only", "fsync", "--json"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["path"], dir_.path());
}

TEST_F(BenchCliTest, a_narrow_terminal_gets_lines_of_80_columns) {
  int terminal = -1;
  int inside = -1;
  const winsize size{.ws_row = 24, .ws_col = 80, .ws_xpixel = 0, .ws_ypixel = 0};
  if (::openpty(&terminal, &inside, nullptr, nullptr, &size) != 0)
    GTEST_SKIP() << "no pseudo-terminal here";
  const UniqueFd reader(terminal);
  UniqueFd writer(inside);
  const Ran ran =
      run_stoker({.args = disk({"--only", "fsync,small_read"}), .stdout_fd = writer.get()});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  std::array<char, 4096> text;
  const ssize_t count = ::read(reader.get(), text.data(), text.size());
  ASSERT_GT(count, 0);
  std::istringstream lines(std::string(text.data(), static_cast<std::size_t>(count)));
  std::string last;
  for (std::string line; std::getline(lines, line); last = line)
    EXPECT_LE(line.size(), 81u) << line;  // with the terminal's carriage return
  EXPECT_TRUE(last.starts_with("  files ")) << last;
}

TEST_F(BenchCliTest, engine_is_the_flag_then_the_environment) {
  const auto engine_of = [&](const std::vector<std::string>& more, const std::string& variable) {
    std::vector<std::string> args = disk({"--json", "--only", "rand_read"});
    args.insert(args.end(), more.begin(), more.end());
    const Ran ran = run_stoker({.args = args, .environment = {{"STOKER_ENGINE", variable}}});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return json::parse(ran.out).value("engine", "");
  };
  EXPECT_EQ(engine_of({"--engine", "sync"}, ""), "sync");
  EXPECT_EQ(engine_of({"--engine", "threads"}, ""), "threads");
  EXPECT_EQ(engine_of({}, "sync"), "sync");
  EXPECT_EQ(engine_of({"--engine", "threads"}, "sync"), "threads");
  EXPECT_EQ(engine_of({"--engine", "sync"}, "nonsense"), "sync") << "not read when not needed";
}

TEST_F(BenchCliTest, unknown_engine_in_the_environment_is_misuse) {
  const std::map<std::string, std::string> environment = {{"STOKER_ENGINE", "nonsense"}};
  const std::vector<std::vector<std::string>> commands = {
      {"bench", "disk", dir_.path()},
      {"bench", "cliff", dir_.path()},
      {"bench", "checkpoint", dir_.path()},
      {"checkpoint", "ls", dir_.path()},
      {"checkpoint", "verify", dir_.path()},
      {"doctor", dir_.path()},
      {"pack", dir_.path(), dir_.file("shards")},
      {"verify", dir_.path()}};
  for (const std::vector<std::string>& args : commands) {
    const Ran ran = run_stoker({.args = args, .environment = environment});
    EXPECT_EQ(ran.exit_code, 2) << args[0];
    EXPECT_EQ(ran.out, "") << args[0];
    EXPECT_TRUE(is_one_line_with(ran.err, {"STOKER_ENGINE", "auto, uring, threads or sync"}))
        << ran.err;
  }
  EXPECT_EQ(run_stoker({.args = {"doctor", "--help"}, .environment = environment}).exit_code, 0);
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCliTest, io_uring_forbidden_falls_back_unless_asked_for) {
  const auto only = disk({"--json", "--only", "rand_read"});
  Ran ran = run_stoker({.args = only, .in_child = forbid_io_uring});
  if (ran.exit_code == kCannotSetUp) GTEST_SKIP() << "this kernel takes no seccomp filter";
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(json::parse(ran.out)["engine"], "threads");

  ran = run_stoker({.args = disk({"--engine", "uring"}), .in_child = forbid_io_uring});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"not permitted", "--engine auto or threads"})) << ran.err;
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCliTest, cliff_reports_its_windows) {
  const std::vector<std::string> args = {"bench", "cliff", dir_.path(), "--bytes", "64MiB"};
  Ran ran = run_stoker({.args = args});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("liff"), std::string::npos) << ran.out;

  std::vector<std::string> with_json = args;
  with_json.push_back("--json");
  ran = run_stoker({.args = with_json});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json root = json::parse(ran.out);
  EXPECT_TRUE(root.contains("cliff"));
  EXPECT_GT(root["bytes_per_s"].get<double>(), 0);
  EXPECT_FALSE(root["windows"].empty());
  EXPECT_EQ(dir_.entry_count(), 0);
}

// Whatever is being measured when the signal comes: the first case, one with named files, the last.
TEST_F(BenchCliTest, interrupt_exits_with_130_and_leaves_nothing) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    for (const char* at : {"[1/", "create small files", "read small files"}) {
      SCOPED_TRACE(at);
      bool is_sent = false;  // more than one case reads small files, and a second signal kills
      const auto interrupt = [&](pid_t process, std::string_view line) {
        if (line.find(at) == std::string_view::npos) return;
        if (!is_sent || signal == SIGHUP) ::kill(process, signal);
        is_sent = true;
      };
      const Ran ran = run_stoker({.args = disk({"-v", "--json"}), .on_err_line = interrupt});
      if (ran.exit_code == 0) continue;  // the last case may be over before the signal is seen
      EXPECT_EQ(ran.exit_code, 130) << ran.signal << ran.err;
      EXPECT_EQ(ran.out, "") << "partial results are not results";
      EXPECT_EQ(dir_.entry_count(), 0);
    }
  }
}

TEST_F(BenchCliTest, a_terminal_that_closes_is_ignored_under_nohup) {
  const Ran ran = run_stoker({.args = disk({"-v", "--only", "small_create,small_read"}),
                              .in_child = [] { return ::signal(SIGHUP, SIG_IGN) != SIG_ERR; },
                              .on_err_line =
                                  [](pid_t process, std::string_view line) {
                                    if (line.starts_with("[")) ::kill(process, SIGHUP);
                                  }});
  EXPECT_EQ(ran.exit_code, 0) << ran.signal << ran.err;
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCliTest, interrupt_in_the_middle_of_an_endless_case_ends_it) {
  const auto interrupt = [](pid_t process, std::string_view line) {
    if (line.starts_with("[")) ::kill(process, SIGINT);
  };
  const Ran ran =
      run_stoker({.args = {"bench", "disk", dir_.path(), "--size", "8MiB", "--time", "600s",
                           "--policy", "direct", "--only", "rand_read", "-v", "--engine", "sync"},
                  .on_err_line = interrupt});
  if (ran.err.find("no direct I/O") != std::string::npos)
    GTEST_SKIP() << "the temporary directory takes no direct I/O";
  EXPECT_EQ(ran.exit_code, 130) << ran.signal << ran.err;
  EXPECT_EQ(dir_.entry_count(), 0);
}

TEST_F(BenchCliTest, kill_leaves_no_file_and_the_next_run_sweeps_the_directory) {
  const auto kill_at = [&](const char* at) {
    return run_stoker(
        {.args = disk({"-v"}), .on_err_line = [&](pid_t process, std::string_view line) {
           if (line.find(at) != std::string_view::npos) ::kill(process, SIGKILL);
         }});
  };
  Ran ran = kill_at("[2/");
  EXPECT_EQ(ran.signal, SIGKILL);
  EXPECT_EQ(dir_.entry_count(), 0) << "the scratch file has no name";

  ran = kill_at("read small files");
  EXPECT_EQ(ran.signal, SIGKILL);
  ran = run_stoker({.args = disk({"--only", "fsync"})});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(dir_.entry_count(), 0) << "the directory of the dead was not swept";
}

}  // namespace
}  // namespace stoker::testing
