// A command in one file: declared, parsed, described and run like any other.
#include "cli/toys/toy_command.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <vector>

namespace stoker::cli {
namespace {

class ToyCommandTest : public ::testing::Test {
 protected:
  ToyCommandTest() { add_toy_command(line_.top(), context_); }

  bool run(std::vector<const char*> words) {
    words.insert(words.begin(), "stoker");
    return line_.run(static_cast<int>(words.size()), words.data(), context_);
  }

  std::ostringstream out_;
  std::ostringstream err_;
  Context context_{.out = out_, .err = err_, .stop = {}};
  CommandLine line_{"stoker", "A test."};
};

TEST_F(ToyCommandTest, prints_its_results_as_lines) {
  EXPECT_TRUE(run({"count", "one", "seven"}));
  EXPECT_EQ(out_.str(), "one 3\nseven 5\n");
  EXPECT_EQ(err_.str(), "");
  EXPECT_EQ(line_.chosen_name(), "stoker count");
}

TEST_F(ToyCommandTest, prints_each_object_of_json_on_one_line) {
  EXPECT_TRUE(run({"count", "one", "--json"}));
  EXPECT_EQ(out_.str(), "{\"word\":\"one\",\"letters\":3}\n");
}

TEST_F(ToyCommandTest, a_misspelt_option_gets_a_suggestion) {
  EXPECT_FALSE(run({"count", "one", "--jsno"}));
  EXPECT_NE(err_.str().find("did you mean --json?"), std::string::npos) << err_.str();
  EXPECT_EQ(out_.str(), "");
}

TEST_F(ToyCommandTest, a_value_that_a_check_refuses_is_misuse) {
  EXPECT_FALSE(run({"count", "one", "--letters-max=0"}));
  EXPECT_NE(err_.str().find("--letters-max"), std::string::npos) << err_.str();
}

TEST_F(ToyCommandTest, its_failure_is_thrown_to_main) {
  try {
    run({"count", "one", "--letters-max=2"});
    FAIL() << out_.str();
  } catch (const CommandFailed& failed) {
    EXPECT_EQ(failed.status().code(), Code::invalid_argument);
    EXPECT_EQ(failed.status().message(), "one: it has 3 letters");
  }
}

TEST_F(ToyCommandTest, is_in_the_help_and_described_for_completion_and_manuals) {
  const Result<std::string> help = line_.top().help({"count"});
  ASSERT_TRUE(help.ok()) << help.status().message();
  EXPECT_NE(help->find("Usage: stoker count"), std::string::npos) << *help;
  const CommandDescription all = line_.top().describe();
  ASSERT_EQ(all.subcommands.size(), 1U);
  EXPECT_EQ(all.subcommands.front().name, "stoker count");
  const auto has_json = [](const OptionDescription& option) {
    return std::ranges::find(option.names, "--json") != option.names.end();
  };
  EXPECT_TRUE(std::ranges::any_of(all.subcommands.front().options, has_json));
}

}  // namespace
}  // namespace stoker::cli
