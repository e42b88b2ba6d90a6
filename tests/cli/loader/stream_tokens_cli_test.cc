// `stoker stream --window` and `--pack`: rows of tokens, as stoker.Tokens cuts them.
#include <fstream>
#include <set>

#include "cli/stream_cli_support.h"
#include "dataset/tokens/token_fingerprint.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

/// Documents of 3, 0, 1, 4000 and 2 tokens.
class StreamTokensCliTest : public StreamCliTest {
 protected:
  StreamTokensCliTest() {
    const std::vector<std::size_t> lengths = {3, 0, 1, 4000, 2};
    write_megatron(dir_.file("t"), lengths);
  }
  Ran stream_tokens(const std::vector<std::string>& more) const {
    std::vector<std::string> args = {"stream", tokens_};
    args.insert(args.end(), more.begin(), more.end());
    return run_stoker({.args = args});
  }
  json report_of(std::vector<std::string> more) const {
    more.emplace_back("--json");
    const Ran ran = stream_tokens(more);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return json::parse(ran.out, nullptr, false);
  }

  const std::string tokens_ = dir_.file("t.idx");
};

TEST_F(StreamTokensCliTest, windows_are_rows_of_one_length) {
  const json found = report_of({"--window", "100", "--extra", "1", "--batch-size", "5"});
  EXPECT_EQ(found["rows"]["kind"], "windows");
  EXPECT_EQ(found["rows"]["count"], 40) << "(4006 - 1) / 100";
  EXPECT_EQ(found["rows"]["tokens"], 101);
  EXPECT_EQ(found["rows"]["dtype"], "uint16");
  EXPECT_EQ(found["samples"], 40);
  EXPECT_EQ(found["batches"], 8);
  EXPECT_EQ(found["bytes"], 40 * 101 * 2);
  EXPECT_NEAR(found["rows"]["tokens_per_s"].get<double>(),
              found["samples_per_s"].get<double>() * 101, 1e-3);
  EXPECT_EQ(found["cursor"]["epoch_samples"], 40);
  EXPECT_EQ(report_of({"--window", "100", "--stride", "50", "--batch-size", "1"})["samples"], 79);
  EXPECT_FALSE(report_of({"--batch-size", "1"}).contains("rows")) << "documents are samples";
}

TEST_F(StreamTokensCliTest, packs_hold_whole_documents) {
  const json found = report_of({"--pack", "1000", "--batch-size", "1"});
  EXPECT_EQ(found["rows"]["kind"], "packs");
  EXPECT_EQ(found["rows"]["count"], 5) << "four full rows, and one of 3, 1 and 2";
  EXPECT_EQ(found["rows"]["tokens"], 1000);
}

TEST_F(StreamTokensCliTest, keys_are_the_numbers_of_the_rows_and_a_stream_goes_on) {
  const std::vector<std::string> more = {"--window", "100", "--batch-size", "4", "--print-keys"};
  const Ran whole = stream_tokens(more);
  ASSERT_EQ(whole.exit_code, 0) << whole.err;
  const std::vector<std::string> keys = lines_in(whole.out);
  std::set<std::string> every;
  for (int i = 0; i < 40; ++i) every.insert(std::to_string(i));
  EXPECT_EQ(std::set(keys.begin(), keys.end()), every);
  EXPECT_NE(whole.err.find("rows     40 windows of 100 tokens (uint16)"), std::string::npos);

  std::vector<std::string> first = more;
  first.insert(first.end(), {"--cursor-file", cursor_, "--max-batches", "3"});
  std::vector<std::string> rest = more;
  rest.insert(rest.end(), {"--cursor-file", cursor_});
  std::string both = stream_tokens(first).out;
  both += stream_tokens(rest).out;
  EXPECT_EQ(both, whole.out);
  rest[1] = "50";
  const Ran other = stream_tokens(rest);
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("fingerprint"), std::string::npos) << "other windows, another dataset";
}

TEST_F(StreamTokensCliTest, the_fingerprint_says_how_the_tokens_are_cut) {
  const Ran indexed = run_stoker({.args = {"index", tokens_, "--json"}});
  const std::string shards = json::parse(indexed.out)["fingerprint"];
  const json windows = report_of({"--window", "100", "--batch-size", "1"});
  const json packs = report_of({"--pack", "100", "--batch-size", "1"});
  const std::string of_windows = windows["cursor"]["fingerprint"];
  EXPECT_NE(of_windows, shards);
  EXPECT_NE(of_windows, packs["cursor"]["fingerprint"].get<std::string>());
  const json same = report_of({"--window", "100", "--stride", "100", "--batch-size", "1"});
  EXPECT_EQ(same["cursor"]["fingerprint"].get<std::string>(), of_windows)
      << "what --stride is by default";
}

TEST_F(StreamTokensCliTest, cursors_that_do_not_say_what_fills_packs_up_are_resumed) {
  const std::vector<std::string> more = {"--pack",        "1000",  "--batch-size",  "1",
                                         "--cursor-file", cursor_, "--max-batches", "1"};
  ASSERT_EQ(stream_tokens(more).exit_code, 0);
  const Ran indexed = run_stoker({.args = {"index", tokens_, "--json"}});
  const auto shards =
      Digest128::from_hex(json::parse(indexed.out)["fingerprint"].get<std::string>());
  ASSERT_TRUE(shards.ok());
  json cursor = json::parse(contents_of(cursor_));
  const std::vector<std::uint64_t> length = {1000};
  cursor["fingerprint"] = token_fingerprint(*shards, length).hex();
  std::ofstream(cursor_) << cursor.dump();
  const Ran ran = stream_tokens(more);
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(json::parse(contents_of(cursor_))["fingerprint"], cursor["fingerprint"]);
}

TEST_F(StreamTokensCliTest, what_does_not_go_together_is_refused) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> misuses = {
      {{"--window", "10", "--pack", "10"}, "--pack puts whole documents together"},
      {{"--pack", "10", "--extra", "1"}, "without --window, --stride and --extra"},
      {{"--stride", "10"}, "give --window"},
      {{"--window", "0"}, "--window"},
      {{"--window", "5000"}, "t.idx"}};
  for (const auto& [more, part] : misuses) {
    const Ran ran = stream_tokens(more);
    EXPECT_EQ(ran.exit_code, 2) << part;
    EXPECT_TRUE(is_one_line_with(ran.err, {"stoker stream: ", part})) << ran.err;
  }
  const Ran ran = stream({"--window", "10"});
  EXPECT_EQ(ran.exit_code, 2) << "these samples are no tokens";
  EXPECT_TRUE(is_one_line_with(ran.err, {shards_})) << ran.err;
}

}  // namespace
}  // namespace stoker::testing
