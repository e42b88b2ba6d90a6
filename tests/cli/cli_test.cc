// The command as a whole: help, version, misuse, and where its results go.
#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"
#include "cli/run_command.h"
#include "stoker/version.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

TEST(CliTest, version_is_one_line_on_stdout) {
  const Ran ran = run_stoker({.args = {"--version"}});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_EQ(ran.out, std::string("stoker ") + kVersion + "\n");
  EXPECT_EQ(ran.err, "");
}

TEST(CliTest, help_is_on_stdout_at_every_level) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> pages = {
      {{"--help"}, "bench"},
      {{"bench", "--help"}, "stoker bench disk --quick"},
      {{"bench", "disk", "--help"}, "STOKER_ENGINE"},
      {{"bench", "cliff", "--help"}, "--bytes"}};
  for (const auto& [args, part] : pages) {
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 0);
    EXPECT_NE(ran.out.find(part), std::string::npos) << ran.out;
    EXPECT_EQ(ran.err, "");
  }
}

TEST(CliTest, misuse_exits_with_2_and_says_so_on_stderr) {
  const std::vector<std::vector<std::string>> misuses = {
      {},
      {"frobnicate"},
      {"bench"},
      {"bench", "frobnicate"},
      {"bench", "disk", "--frobnicate"},
      {"bench", "disk", "--size"},
      {"bench", "disk", "--size", "-1"},
      {"bench", "disk", "--size", "much"},
      {"bench", "disk", "--size", "4K"},
      {"bench", "disk", "--size", "1"},
      {"bench", "disk", "--size", "99999999999999999999GiB"},
      {"bench", "disk", "--engine", "warp"},
      {"bench", "disk", "--policy", "hope"},
      {"bench", "disk", "--only", "everything"},
      {"bench", "disk", "--block", "17"},
      {"bench", "disk", "--block", "8GiB"},
      {"bench", "disk", "--depth", "0"},
      {"bench", "disk", "--depth", "many"},
      {"bench", "disk", "--time", "soon"},
      {"bench", "disk", "--policy", "mmap", "--only", "seq_write"},
      {"bench", "disk", "left", "over"},
      {"bench", "cliff", "--bytes", "0"},
      {"bench", "cliff", "--bytes", "1MiB"},
      {"bench", "cliff", "--policy", "mmap"}};
  for (const std::vector<std::string>& args : misuses) {
    std::string line;
    for (const std::string& arg : args) line += arg + " ";
    SCOPED_TRACE(line);
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_EQ(ran.out, "");
    EXPECT_TRUE(is_one_line_with(ran.err, {"stoker"})) << ran.err;
  }
}

TEST(CliTest, a_value_that_is_refused_comes_with_its_option) {
  for (const auto& [option, value] : std::vector<std::pair<std::string, std::string>>{
           {"--policy", "foo"}, {"--only", "foo"}, {"--time", "0"}, {"--path", ""}}) {
    const Ran ran = run_stoker({.args = {"bench", "disk", option, value}});
    EXPECT_EQ(ran.exit_code, 2) << option;
    EXPECT_TRUE(is_one_line_with(ran.err, {option})) << ran.err;
  }
}

TEST(CliTest, a_command_that_does_not_exist_is_answered_with_one_that_does) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> typos = {
      {{"bnch"}, "stoker: there is no command bnch; did you mean bench? (stoker --help)\n"},
      {{"steam", "x"}, "stoker: there is no command steam; did you mean stream? (stoker --help)\n"},
      {{"frobnicate"}, "stoker: there is no command frobnicate (stoker --help)\n"},
      {{"bench", "dsk"},
       "stoker bench: there is no command dsk; did you mean disk? (stoker bench --help)\n"},
      {{"--bogus"},
       "stoker: there is no option --bogus here, and a command is needed (stoker --help)\n"},
      {{}, "stoker: a command is needed (stoker --help)\n"}};
  for (const auto& [args, line] : typos) EXPECT_EQ(run_stoker({.args = args}).err, line);
}

TEST(CliTest, results_that_cannot_be_written_are_a_failure) {
  const TempDir dir;
  const std::vector<std::string> args = {"bench",  "disk",  "--path", dir.path(), "--size", "4MiB",
                                         "--only", "fsync", "--time", "1ms",      "--json"};
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  ASSERT_TRUE(full);
  Ran ran = run_stoker({.args = args, .stdout_fd = full.get()});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"standard output"})) << ran.err;

  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd write_end(ends[1]);
  ::close(ends[0]);  // as `| head` does when it has seen enough
  ran = run_stoker({.args = args, .stdout_fd = write_end.get()});
  EXPECT_EQ(ran.signal, 0) << "SIGPIPE";
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"standard output"})) << ran.err;

  ran = run_stoker({.args = args, .in_child = [] { return ::close(STDOUT_FILENO) == 0; }});
  EXPECT_EQ(ran.exit_code, 1) << "stdout closed: the scratch file must not take its place";
  EXPECT_TRUE(is_one_line_with(ran.err, {"standard output"})) << ran.err;

  ran = run_stoker({.args = {"--version"}, .stdout_fd = full.get()});
  EXPECT_EQ(ran.exit_code, 1);
}

}  // namespace
}  // namespace stoker::testing
