// `stoker tune`: short, honest, and usable as it is printed.
#include <signal.h>

#include "cli/stream_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class TuneCliTest : public StreamCliTest {
 protected:
  Ran tune(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"tune", shards_};
    args.insert(args.end(), more.begin(), more.end());
    return run_stoker({.args = args});
  }
};

TEST_F(TuneCliTest, a_table_and_a_setting_for_both_languages) {
  const Ran ran = tune({"--time", "1s", "--batch-size", "6"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "");
  for (const char* part :
       {"samples/s", "buffered", "Recommended", "--batch-size 6", "batch_size=6"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
  const std::size_t at = ran.out.find("\n  stoker stream ");
  ASSERT_NE(at, std::string::npos) << ran.out;
  std::vector<std::string> args;
  std::istringstream words(ran.out.substr(at, ran.out.find('\n', at + 1) - at));
  for (std::string word; words >> word;) args.push_back(word);
  args.erase(args.begin());
  const Ran streamed = run_stoker({.args = args});
  EXPECT_EQ(streamed.exit_code, 0) << "what it prints can be run: " << streamed.err;
}

TEST_F(TuneCliTest, json_recommends_only_what_was_clearly_faster) {
  const Ran ran = tune({"--time", "1s", "--batch-size", "6", "--shuffle", "block", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json found = json::parse(ran.out, nullptr, false);
  ASSERT_TRUE(found.is_object()) << ran.out;
  const json automatic = {{"policy", "automatic"}, {"threads", "auto"}, {"depth", "auto"}};
  EXPECT_EQ(found["recommended"],
            found["comparison"]["is_clear"].get<bool>() ? found["fastest"] : automatic);
  EXPECT_EQ(found["settings"][0]["policy"], "automatic");
  EXPECT_FALSE(found["settings"][0]["runs"].empty());
  EXPECT_LE(found["comparison"]["pairs"], 9);
  EXPECT_NE(found["command"].get<std::string>().find("--shuffle block"), std::string::npos);
  EXPECT_NE(found["python"].get<std::string>().find("shuffle=\"block\""), std::string::npos);
}

TEST_F(TuneCliTest, the_command_has_every_option_of_the_samples_and_the_memory) {
  const Ran ran = tune({"--time", "1s", "--batch-size", "6", "--seed", "7", "--tail", "keep",
                        "--memory", "64MiB", "--rank", "1", "--world-size", "2", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json found = json::parse(ran.out, nullptr, false);
  ASSERT_TRUE(found.is_object()) << ran.out;
  const auto command = found["command"].get<std::string>();
  EXPECT_NE(command.find(" --batch-size 6 --seed 7 --tail keep --rank 1 --world-size 2 "
                         "--memory 64MiB"),
            std::string::npos)
      << command;
  const auto call = found["python"].get<std::string>();
  EXPECT_NE(call.find(R"(seed=7, tail="keep", memory_bytes="64MiB")"), std::string::npos) << call;
}

TEST_F(TuneCliTest, cold_runs_are_measured_too) {
  const Ran ran = tune({"--time", "1s", "--batch-size", "60", "--cold", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json found = json::parse(ran.out, nullptr, false);
  EXPECT_GT(found["runs"], 1);
  EXPECT_EQ(found["is_cold"], true);
}

TEST_F(TuneCliTest, ctrl_c_ends_it) {
  const Ran ran = run_stoker({.args = {"tune", shards_, "--time", "1h", "--batch-size", "6", "-v"},
                              .on_err_line = [](pid_t pid, std::string_view line) {
                                if (line.find("threads 1") != std::string_view::npos)
                                  ::kill(pid, SIGINT);
                                if (line.starts_with("[1/")) ::kill(pid, SIGINT);
                              }});
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_EQ(ran.out, "");
  EXPECT_TRUE(lines_in(ran.err).back().starts_with("stoker tune: ")) << ran.err;
}

TEST_F(TuneCliTest, misuse_and_failures_are_one_line) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> misuses = {
      {{"--time", "soon"}, "--time"},
      {{"--time", "10ms"}, "less than 1s"},
      {{"--batch-size", "61"}, "60"},
      {{"--shuffle", "well"}, "global, block, off or resampled"},
      {{"--threads", "2"}, "--threads"}};
  for (const auto& [more, part] : misuses) {
    const Ran ran = tune(more);
    EXPECT_EQ(ran.exit_code, 2) << part;
    EXPECT_TRUE(is_one_line_with(ran.err, {part})) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
  const Ran ran = run_stoker({.args = {"tune", dir_.file("absent")}});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"stoker tune: ", "absent"})) << ran.err;
}

}  // namespace
}  // namespace stoker::testing
