// The command as a whole: help, version, misuse, and where its results go.
#include <fcntl.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "base/unique_fd.h"
#include "cli/run_command.h"
#include "stoker/version.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

TEST(CliTest, version_says_what_was_built_from_what) {
  const Ran ran = run_stoker({.args = {"--version"}, .environment = {{"STOKER_ENGINE", "sync"}}});
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(ran.out.starts_with(std::string("stoker ") + kVersion + "\nrevision ")) << ran.out;
  for (const char* part :
       {"\ncompiler ", "\nlibraries ", "liburing 2", "OpenSSL 3", "\nengine     sync "})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << ran.out;
  EXPECT_EQ(ran.err, "");
}

TEST(CliTest, version_as_json_has_the_same_members_in_either_order_of_the_options) {
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"--version", "--json"}, {"--json", "--version"}}) {
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 0);
    const nlohmann::json json = nlohmann::json::parse(ran.out);
    EXPECT_EQ(json.at("version"), kVersion);
    EXPECT_GE(json.at("libraries").size(), 8U);
    for (const auto& [name, version] : json.at("libraries").items())
      EXPECT_NE(version, "unknown") << name;
    for (const char* member : {"revision", "compiler", "platform", "engine", "engine_reason"})
      EXPECT_FALSE(json.at(member).get<std::string>().empty()) << member;
  }
  EXPECT_EQ(run_stoker({.args = {"--json"}}).exit_code, 2) << "only --version has it";
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

/// Looks at the help of a command and of those below it; returns how many there are.
int expect_narrow_help(const std::vector<std::string>& command) {
  constexpr std::size_t kColumns = 80;
  std::vector<std::string> args = command;
  args.emplace_back("--help");
  const Ran ran = run_stoker({.args = args});
  EXPECT_EQ(ran.exit_code, 0);
  int count = 1;
  bool is_in_commands = false;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_LE(line.size(), kColumns) << line;
    if (line.empty() || line.front() != ' ') is_in_commands = line == "Subcommands:";
    if (!is_in_commands || line.size() < 3 || line[2] == ' ' || line.front() != ' ') continue;
    std::vector<std::string> below = command;
    below.push_back(line.substr(2, line.find(' ', 2) - 2));
    count += expect_narrow_help(below);
  }
  return count;
}

TEST(CliTest, every_help_fits_into_80_columns) {
  EXPECT_GT(expect_narrow_help({}), 25);
}

TEST(CliTest, examples_in_help_are_not_filled) {
  const Ran ran = run_stoker({.args = {"cat", "--help"}});
  EXPECT_NE(ran.out.find("\n  stoker cat shards '#17.jpg' > a.jpg  its field jpg"),
            std::string::npos)
      << ran.out;
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
      {"bench", "disk", "one", "--path", "two"},
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
           {"--policy", "foo"}, {"--only", "foo"}, {"--time", "0"}, {"--path", ""}, {"DIR", ""}}) {
    std::vector<std::string> args = {"bench", "disk", value};
    if (option != "DIR") args.insert(args.end() - 1, option);
    const Ran ran = run_stoker({.args = args});
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
      {{"exprot", "x"},
       "stoker: there is no command exprot; did you mean checkpoint export? (stoker --help)\n"},
      {{"--bogus"}, "stoker: there is no option --bogus (stoker --help)\n"},
      {{}, "stoker: a command is needed (stoker --help)\n"}};
  for (const auto& [args, line] : typos) EXPECT_EQ(run_stoker({.args = args}).err, line);
}

TEST(CliTest, an_option_that_does_not_exist_is_answered_with_one_that_does) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> typos = {
      {{"stream", "x", "--sead", "7"}, "there is no option --sead; did you mean --seed?"},
      {{"stream", "x", "--sead=7"}, "there is no option --sead; did you mean --seed?"},
      {{"stream", "x", "--batch_size", "7"}, "no option --batch_size; did you mean --batch-size?"},
      {{"stream", "x", "--global", "7"}, "no option --global; did you mean --global-batch-size?"},
      {{"ls", "x", "-json"}, "there is no option -json; did you mean --json?"},
      {{"verify", "--jsn"}, "there is no option --jsn; did you mean --json?"},
      {{"pack", "x.parquet", "y", "--colums", "a"}, "--colums; did you mean --columns?"},
      {{"checkpoint", "import", "x", "y.pt", "--setp", "1"}, "--setp; did you mean --step?"},
      {{"bench", "disk", "--frobnicate"}, "there is no option --frobnicate (stoker bench disk"},
      {{"bench", "--quick", "disk"}, "--quick belongs after disk"},
      {{"--versoin"}, "there is no option --versoin; did you mean --version?"}};
  for (const auto& [args, part] : typos) {
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_TRUE(is_one_line_with(ran.err, {part})) << ran.err;
  }
  const Ran old = run_stoker({.args = {"stream", "x", "--consumer", "1"}});
  EXPECT_EQ(old.err.find("did you mean"), std::string::npos) << "an old spelling: " << old.err;
}

TEST(CliTest, help_is_a_command_too) {
  const std::vector<std::vector<std::string>> commands = {
      {}, {"stream"}, {"bench"}, {"bench", "disk"}, {"checkpoint", "export"}, {"help"}};
  for (const std::vector<std::string>& command : commands) {
    std::vector<std::string> by_command = {"help"};
    by_command.insert(by_command.end(), command.begin(), command.end());
    std::vector<std::string> by_option = command;
    by_option.push_back("--help");
    const Ran ran = run_stoker({.args = by_command, .environment = {{"STOKER_ENGINE", "warp"}}});
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(ran.out, run_stoker({.args = by_option}).out);
    EXPECT_EQ(ran.err, "");
  }
  Ran ran = run_stoker({.args = {"help", "steam"}});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.err, "stoker help: there is no command steam; did you mean stream?\n");
  ran = run_stoker({.args = {"help", "exprot"}});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_EQ(ran.err, "stoker help: there is no command exprot; did you mean checkpoint export?\n");
  ran = run_stoker({.args = {"help", "bench", "dsk"}});
  EXPECT_EQ(ran.err, "stoker help: there is no command dsk; did you mean disk?\n");
}

TEST(CliTest, results_that_cannot_be_written_are_a_failure) {
  const TempDir dir;
  const std::vector<std::string> args = {"bench",  "disk",  dir.path(), "--size", "4MiB",
                                         "--only", "fsync", "--time",   "1ms",    "--json"};
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
