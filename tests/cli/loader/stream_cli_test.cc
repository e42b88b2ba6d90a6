// `stoker stream`: what it prints and in which order, and how it says no.
#include <fcntl.h>
#include <signal.h>

#include <set>

#include "base/unique_fd.h"
#include "cli/stream_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;
using Keys = std::vector<std::string>;

TEST_F(StreamCliTest, a_batch_that_is_too_large_is_refused_in_the_words_of_the_command) {
  const Ran ran = stream({"--batch-size", "1000"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(ran.err, {"60 samples cannot fill one batch of 1000",
                                         "--batch-size of at most 60", "--tail keep"}))
      << ran.err;
  EXPECT_EQ(ran.err.find("tail="), std::string::npos) << ran.err;
  EXPECT_EQ(stream({"--batch-size", "1000", "--tail", "keep"}).exit_code, 0);
}

TEST_F(StreamCliTest, an_epoch_is_summed_up_in_a_few_lines) {
  const Ran ran = stream({"--batch-size", "8"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "no terminal, no live line";
  EXPECT_TRUE(ran.out.starts_with(shards_ + ": 60 samples in 3 shards (tar), ")) << ran.out;
  for (const char* part : {"7 of 8 samples, global order, seed 0", "samples  56 in ", "p99 ",
                           "unchecked", "position 56 of 60", "--step-ms shows stalls"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;
}

TEST_F(StreamCliTest, json_has_the_figures_and_they_agree) {
  const json found = report({"--batch-size", "7", "--shuffle", "none", "--epochs", "2", "--threads",
                             "2", "--depth", "3", "--policy", "buffered", "--memory", "64MiB"});
  ASSERT_TRUE(found.is_object());
  EXPECT_EQ(found["end"], "complete");
  EXPECT_EQ(found["samples"], 2 * kSamples);
  EXPECT_EQ(found["batches"], 18);
  EXPECT_EQ(found["batch_count"], 18);
  EXPECT_EQ(found["unchecked"], 2 * kSamples);
  EXPECT_EQ(found["threads"], 2);
  EXPECT_EQ(found["depth"], 3);
  EXPECT_EQ(found["policy"], "buffered");
  EXPECT_EQ(found["memory_bytes"], 64 << 20);
  EXPECT_GT(found["bytes"], 0);
  EXPECT_NEAR(found["samples_per_s"].get<double>() * found["seconds"].get<double>(), 120, 1e-6);
  EXPECT_LE(found["wait_p50_ns"], found["wait_p99_ns"]);
  std::int64_t waited = 0;
  for (const char* stage : {"queue", "memory", "store", "read", "decode", "collate"})
    waited += found["waited_in_ns"][stage].get<std::int64_t>();
  EXPECT_NEAR(static_cast<double>(waited), found["waited_ns"].get<double>(), 1000);
  EXPECT_EQ(found["cursor"]["epoch"], 1);
  EXPECT_EQ(found["cursor"]["position"], kSamples);
  EXPECT_EQ(found["cursor"]["shuffle"], "off");
}

TEST_F(StreamCliTest, keys_are_alone_on_stdout_and_each_comes_once) {
  const Keys stored = keys({"--shuffle", "none"});
  ASSERT_EQ(stored.size(), kSamples);
  for (std::size_t i = 0; i < kSamples; ++i) EXPECT_EQ(stored[i], make_sample(i).key);
  for (const char* shuffle : {"global", "block"}) {
    const Keys shuffled = keys({"--shuffle", shuffle, "--seed", "7", "--batch-size", "6"});
    EXPECT_NE(shuffled, stored) << shuffle;
    EXPECT_EQ(std::set(shuffled.begin(), shuffled.end()), std::set(stored.begin(), stored.end()));
    EXPECT_EQ(keys({"--shuffle", shuffle, "--seed", "7", "--batch-size", "6", "--threads", "3",
                    "--depth", "9", "--policy", "drop-behind", "--engine", "sync"}),
              shuffled)
        << "neither threads nor paths have a part in the order";
    EXPECT_NE(keys({"--shuffle", shuffle, "--seed", "8", "--batch-size", "6"}), shuffled);
  }
  const Keys drawn = keys({"--shuffle", "resampled", "--batch-size", "6"});
  EXPECT_EQ(drawn.size(), kSamples);
  EXPECT_LT(std::set(drawn.begin(), drawn.end()).size(), kSamples) << "with replacement";
}

TEST_F(StreamCliTest, figures_go_to_stderr_beside_keys) {
  const Ran ran = stream({"--batch-size", "6", "--print-keys", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(lines_in(ran.out).size(), kSamples);
  EXPECT_EQ(json::parse(ran.err, nullptr, false)["samples"], kSamples);
}

TEST_F(StreamCliTest, keys_of_formats_without_any_are_their_key_field_or_number) {
  const std::string mds = dir_.file("mds");
  ASSERT_EQ(run_stoker({.args = {"convert", shards_, mds, "--format", "mds"}}).exit_code, 0);
  Ran ran = run_stoker({.args = {"stream", mds, "--shuffle", "none", "--print-keys"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(lines_in(ran.out), keys({"--shuffle", "none"}));
  const std::vector<OwnedSample> samples = make_samples(4);
  write_mds(dir_.file("bare"), samples, 2);
  ran = run_stoker({.args = {"stream", dir_.file("bare"), "--shuffle", "none", "--print-keys"}});
  EXPECT_EQ(ran.out, "shard.00000/0\nshard.00000/1\nshard.00001/0\nshard.00001/1\n");
}

TEST_F(StreamCliTest, epochs_and_tails_are_those_of_the_loader) {
  const Keys two = keys({"--batch-size", "8", "--epochs", "2"});
  ASSERT_EQ(two.size(), 2 * 56U);
  EXPECT_NE(Keys(two.begin(), two.begin() + 56), Keys(two.begin() + 56, two.end()));
  EXPECT_EQ(keys({"--batch-size", "8", "--tail", "keep"}).size(), 60U);
  EXPECT_EQ(keys({"--batch-size", "8", "--tail", "wrap"}).size(), 64U);
  EXPECT_EQ(keys({"--batch-size", "8", "--tail", "pad"}).size(), 64U);
  EXPECT_EQ(keys({"--batch-size", "8", "--epochs", "0", "--max-batches", "100"}).size(), 800U);
  EXPECT_EQ(report({"--batch-size", "8", "--max-batches", "3"})["end"], "max_batches");
  EXPECT_EQ(report({"--batch-size", "8", "--max-batches", "7"})["end"], "complete");
}

TEST_F(StreamCliTest, two_ranks_together_are_one_rank) {
  for (const char* shuffle : {"global", "block", "none", "resampled"}) {
    const Keys whole = keys({"--shuffle", shuffle, "--batch-size", "6", "--epochs", "2"});
    Keys parts[2];
    for (const int rank : {0, 1})
      parts[rank] = keys({"--shuffle", shuffle, "--batch-size", "3", "--epochs", "2", "--rank",
                          std::to_string(rank), "--world-size", "2"});
    Keys together;
    for (std::size_t at = 0; at < parts[0].size(); at += 3)
      for (const Keys& part : parts)
        together.insert(together.end(), part.begin() + std::ptrdiff_t(at),
                        part.begin() + std::ptrdiff_t(at + 3));
    EXPECT_EQ(together, whole) << shuffle;
  }
}

TEST_F(StreamCliTest, a_consumer_takes_its_time) {
  const json found = report({"--batch-size", "10", "--step-ms", "2.5"});
  EXPECT_EQ(found["step_ms"], 2.5);
  EXPECT_EQ(report({"--batch-size", "10", "--consumer-ms", "2.5"})["step_ms"], 2.5) << "as in 0.1";
  EXPECT_GE(found["seconds"].get<double>(), 5 * 0.0025);
  EXPECT_LT(found["stall_share"].get<double>(), 1);
  const Ran ran = stream({"--batch-size", "10", "--step-ms", "2.5"});
  EXPECT_NE(ran.out.find("% of the time"), std::string::npos) << ran.out;
}

TEST_F(StreamCliTest, the_time_of_a_few_batches_is_that_since_the_start) {
  const json found = report({"--batch-size", "3", "--max-batches", "1"});
  // Threads were started before the first batch was asked for; that alone takes longer than this.
  EXPECT_GT(found["seconds"].get<double>() * 1e9, found["waited_ns"].get<double>() + 2000);
}

TEST_F(StreamCliTest, names_are_those_of_python_too) {
  const Keys stored = keys({"--shuffle", "none"});
  EXPECT_EQ(keys({"--shuffle", "off", "--policy", "automatic"}), stored);
  EXPECT_EQ(keys({"--shuffle", "off", "--policy", "drop_behind"}), stored);
}

TEST_F(StreamCliTest, misuse_is_one_line_with_the_fix_and_exit_2) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> misuses = {
      {{"--batch-size", "0"}, "--batch-size: not a whole number from 1 on: 0"},
      {{"--batch-size", "61"}, "60"},
      {{"--batch-size", "2", "--global-batch-size", "4"}, "not both"},
      {{"--batch-size", "999999999999999999"}, "at most"},
      {{"--global-batch-size", "5", "--world-size", "2"},
       "--global-batch-size=5 cannot be divided among 2 ranks"},
      {{"--shuffle", "well"}, "global, block, off or resampled"},
      {{"--seed", "-1"}, "--seed"},
      {{"--tail", "bite"}, "drop, keep, wrap"},
      {{"--epochs", "few"}, "--epochs"},
      {{"--rank", "2", "--world-size", "2"}, "ranks go from 0"},
      {{"--world-size", "0"}, "--world-size"},
      {{"--rank", "-1"}, "--rank"},
      {{"--epochs", "-1"}, "--epochs"},
      {{"--step-ms", "-1"}, "--step-ms"},
      {{"--step-ms", "nan"}, "--step-ms"},
      {{"--batch-size", "6", "--memory", "1KB"}, "--memory is 1,000, and "},
      {{"--memory", "lots"}, "--memory"},
      {{"--threads", "0"}, "\"auto\", or a number"},
      {{"--batch-size", "6", "--threads", "257"}, "at most 256"},
      {{"--depth", "2x"}, "\"auto\", or a number"},
      {{"--policy", "hope"}, "--policy"},
      {{"--engine", "warp"}, "--engine"},
      {{"--max-batches", "0"}, "--max-batches"},
      {{"--cursor-every", "0"}, "--cursor-every"},
      {{"--cursor-file", dir_.file("no/such/at.json")}, "create it first"},
      {{"--allow", "tail"}, "--cursor-file"},
      {{dir_.path()}, "one dataset at a time"}};
  for (const auto& [more, part] : misuses) {
    const Ran ran = stream(more);
    EXPECT_EQ(ran.exit_code, 2) << more[0] << " " << ran.out;
    EXPECT_TRUE(is_one_line_with(ran.err, {part})) << more[0] << ": " << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(StreamCliTest, failures_are_one_line_and_exit_1) {
  Ran ran = run_stoker({.args = {"stream", dir_.file("absent")}});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"stoker stream: ", "absent"})) << ran.err;
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  for (const char* what : {"--json", "--print-keys"}) {
    ran = run_stoker({.args = command({"--batch-size", "6", what}), .stdout_fd = full.get()});
    EXPECT_EQ(ran.exit_code, 1) << what;
    EXPECT_TRUE(is_one_line_with(ran.err, {"standard output", "No space"})) << ran.err;
  }
}

TEST_F(StreamCliTest, a_reader_that_went_away_ends_it_as_SIGPIPE_does) {
  int ends[2] = {-1, -1};
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd write_end(ends[1]);
  ::close(ends[0]);
  const Ran ran = run_stoker({.args = command({"--epochs", "0", "--batch-size", "6", "--print-keys",
                                               "--cursor-file", cursor_}),
                              .stdout_fd = write_end.get()});
  EXPECT_EQ(ran.signal, SIGPIPE);
  EXPECT_EQ(ran.err, "");
  EXPECT_FALSE(std::filesystem::exists(cursor_)) << "it would count keys that nobody got";
}

TEST_F(StreamCliTest, help_explains_the_cursor) {
  const Ran ran = run_stoker({.args = {"stream", "--help"}});
  EXPECT_EQ(ran.exit_code, 0);
  for (const char* part : {"--cursor-file", "--print-keys", "load_state_dict", "head -n COUNT"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part;
}

}  // namespace
}  // namespace stoker::testing
