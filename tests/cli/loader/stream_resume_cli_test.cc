// `stoker stream --cursor-file`: whatever ends a stream, it continues with the next sample.
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>

#include "base/unique_fd.h"
#include "cli/stream_cli_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;
using Keys = std::vector<std::string>;

class StreamResumeCliTest : public StreamCliTest {
 protected:
  json cursor() const { return json::parse(contents_of(cursor_), nullptr, false); }

  /// What stderr says came before: the number of keys to keep.
  static std::size_t came_before(const std::string& err) {
    const std::size_t at = err.find(": ");
    return err.starts_with("resumed at epoch ") ? std::stoul(err.substr(at + 2)) : 0;
  }

  /// Runs without end until `lines` keys were seen, then sends `signal`. Its keys.
  Ran run_until(std::size_t lines, int signal, std::vector<std::string> args) const {
    args.insert(args.end(), {"--epochs", "0", "--print-keys", "--cursor-file", cursor_});
    std::size_t seen = 0;
    return run_stoker({.args = command(args), .on_out_line = [&](pid_t pid, std::string_view) {
                         if (++seen == lines) ::kill(pid, signal);
                       }});
  }
};

TEST_F(StreamResumeCliTest, pieces_are_the_unbroken_run) {
  for (const char* shuffle : {"global", "block", "none", "resampled"}) {
    const std::vector<std::string> same = {"--shuffle",    shuffle, "--seed",   "7",
                                           "--batch-size", "7",     "--epochs", "3",
                                           "--tail",       "keep"};
    const Keys whole = keys(same);
    ASSERT_EQ(whole.size(), 3 * kSamples);
    Keys pieces;
    for (int piece = 1; pieces.size() < whole.size() && piece < 20; ++piece) {
      std::vector<std::string> args = same;
      args.insert(args.end(), {"--cursor-file", cursor_, "--max-batches", std::to_string(piece),
                               "--threads", std::to_string(1 + piece % 3), "--print-keys"});
      const Ran ran = stream(args);
      ASSERT_EQ(ran.exit_code, 0) << ran.err;
      EXPECT_EQ(came_before(ran.err), pieces.size()) << ran.err;
      for (const std::string& key : lines_in(ran.out)) pieces.push_back(key);
    }
    EXPECT_EQ(pieces, whole) << shuffle;
    std::vector<std::string> args = same;
    args.insert(args.end(), {"--cursor-file", cursor_});
    const Ran done = stream(args);
    EXPECT_EQ(done.exit_code, 0) << done.err;
    EXPECT_NE(done.out.find("nothing is left"), std::string::npos) << done.out;
    std::filesystem::remove(cursor_);
  }
}

TEST_F(StreamResumeCliTest, a_stream_killed_anywhere_goes_on_exactly) {
  const std::vector<std::string> same = {"--seed", "7", "--batch-size", "8"};
  for (const std::size_t lines : {1U, 8U, 9U, 57U, 200U, 333U}) {
    for (const char* every : {"1", "5"}) {
      SCOPED_TRACE(std::to_string(lines) + " keys, a cursor every " + every);
      std::filesystem::remove(cursor_);
      std::vector<std::string> args = same;
      args.insert(args.end(), {"--cursor-every", every});
      const Ran killed = run_until(lines, SIGKILL, args);
      ASSERT_EQ(killed.signal, SIGKILL);
      Keys got = lines_in(killed.out);

      args.insert(args.end(), {"--epochs", "0", "--max-batches", "20", "--print-keys",
                               "--cursor-file", cursor_});
      const Ran resumed = stream(args);
      ASSERT_EQ(resumed.exit_code, 0) << resumed.err;
      const std::size_t kept = came_before(resumed.err);
      ASSERT_LE(kept, got.size()) << "the cursor never counts what was not printed";
      got.resize(kept);
      for (const std::string& key : lines_in(resumed.out)) got.push_back(key);

      args = same;
      args.insert(args.end(), {"--epochs", "0", "--max-batches", std::to_string(kept / 8 + 20)});
      EXPECT_EQ(got, keys(args));
    }
  }
}

TEST_F(StreamResumeCliTest, ctrl_c_says_what_was_measured_and_how_to_go_on) {
  const Ran ran = run_until(100, SIGINT, {"--batch-size", "8"});
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_NE(ran.err.find("\n  samples  "), std::string::npos) << ran.err;
  const Keys said = lines_in(ran.err);
  EXPECT_TRUE(said.back().starts_with("stoker stream: interrupted after ")) << said.back();
  EXPECT_NE(said.back().find("continues from " + cursor_), std::string::npos) << said.back();
  const std::size_t kept = lines_in(ran.out).size();
  EXPECT_EQ(cursor()["epoch"].get<std::size_t>() * 56 + cursor()["position"].get<std::size_t>(),
            kept)
      << "what was printed is counted";
  const Ran json_ran = run_until(60, SIGTERM, {"--batch-size", "8", "--json"});
  EXPECT_EQ(json_ran.exit_code, 130);
  const Keys lines = lines_in(json_ran.err);
  ASSERT_EQ(lines.size(), 3U) << json_ran.err;
  EXPECT_EQ(json::parse(lines[1], nullptr, false)["end"], "interrupted");
}

TEST_F(StreamResumeCliTest, ctrl_c_wakes_a_consumer_that_sleeps) {
  // An hour: the test's patience would be over.
  const Ran ran = run_until(1, SIGINT, {"--batch-size", "8", "--step-ms", "3600000"});
  EXPECT_EQ(ran.exit_code, 130) << ran.err;
  EXPECT_NE(ran.err.find("interrupted after 1 batch;"), std::string::npos) << ran.err;
}

TEST_F(StreamResumeCliTest, another_number_of_ranks_may_go_on) {
  const std::vector<std::string> same = {"--seed", "7", "--global-batch-size", "6"};
  const Keys whole = keys(same);
  std::vector<std::string> args = same;
  args.insert(args.end(), {"--cursor-file", cursor_, "--max-batches", "4"});
  const Keys begin = keys(args);
  const std::string at = contents_of(cursor_);
  Keys parts[2];
  for (const int rank : {0, 1}) {
    std::ofstream(dir_.file("rank.json"), std::ios::trunc) << at;
    args = same;
    args.insert(args.end(), {"--cursor-file", dir_.file("rank.json"), "--world-size", "2", "--rank",
                             std::to_string(rank)});
    parts[rank] = keys(args);
    ASSERT_EQ(parts[rank].size(), 18U);
  }
  Keys together = begin;
  for (std::size_t i = 0; i < 18; i += 3)
    for (const Keys& part : parts) together.insert(together.end(), &part[i], &part[i] + 3);
  EXPECT_EQ(together, whole);
}

TEST_F(StreamResumeCliTest, a_cursor_of_another_run_is_refused_by_name) {
  ASSERT_EQ(stream({"--batch-size", "6", "--max-batches", "2", "--cursor-file", cursor_}).exit_code,
            0);
  const std::string before = contents_of(cursor_);
  const std::vector<std::pair<std::vector<std::string>, std::string>> others = {
      {{"--batch-size", "6", "--seed", "9"}, "seed was 0 and is 9"},
      {{"--batch-size", "6", "--shuffle", "none"}, "shuffle was global and is off"},
      {{"--batch-size", "5"}, "global_batch_size was 6 and is 5 (may be allowed)"},
      {{"--batch-size", "6", "--tail", "wrap"}, "tail was drop and is wrap"}};
  for (const auto& [more, part] : others) {
    std::vector<std::string> args = more;
    args.insert(args.end(), {"--cursor-file", cursor_});
    const Ran ran = stream(args);
    EXPECT_EQ(ran.exit_code, 2);
    EXPECT_TRUE(is_one_line_with(ran.err, {cursor_, "CursorMismatch", part, "remove the file"}))
        << ran.err;
  }
  write_tar(shards_ + "/s3.tar", make_samples(1, 60));
  const Ran ran = stream({"--batch-size", "6", "--cursor-file", cursor_});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(ran.err, {"epoch_samples was 60 and is 61", "fingerprint"}))
      << ran.err;
  EXPECT_EQ(contents_of(cursor_), before) << "a refusal changes nothing";
}

TEST_F(StreamResumeCliTest, what_may_differ_can_be_allowed) {
  const Keys whole = keys({"--batch-size", "6"});
  ASSERT_EQ(stream({"--batch-size", "6", "--max-batches", "2", "--cursor-file", cursor_}).exit_code,
            0);
  const Keys rest =
      keys({"--batch-size", "12", "--cursor-file", cursor_, "--allow", "global_batch_size,tail"});
  EXPECT_EQ(rest, Keys(whole.begin() + 12, whole.end()));
  const Ran ran = stream({"--batch-size", "6", "--cursor-file", cursor_, "--allow", "seed"});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(ran.err, {"'seed' cannot be allowed"})) << ran.err;
}

TEST_F(StreamResumeCliTest, a_damaged_cursor_is_a_failure_with_its_cure) {
  for (const char* text : {"", "{", "null", "{\"version\":1}"}) {
    std::ofstream(cursor_, std::ios::trunc) << text;
    const Ran ran = stream({"--cursor-file", cursor_});
    EXPECT_EQ(ran.exit_code, 1) << text;
    EXPECT_TRUE(is_one_line_with(ran.err, {cursor_, "remove the file to start over"})) << ran.err;
    EXPECT_EQ(contents_of(cursor_), text);
  }
}

TEST_F(StreamResumeCliTest, a_sample_that_cannot_be_read_leaves_the_cursor_before_it) {
  ASSERT_EQ(run_stoker({.args = {"index", shards_, "--checksums"}}).exit_code, 0);
  flip_bit(shards_ + "/s1.tar", 1600);  // sample 20 or so, of 60 in stored order
  const std::string out = dir_.file("keys");
  const UniqueFd file(::open(out.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
  const Ran ran =
      run_stoker({.args = command({"--shuffle", "none", "--batch-size", "4", "--print-keys",
                                   "--cursor-file", cursor_, "--cursor-every", "100"}),
                  .stdout_fd = file.get()});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"s1.tar", "checksum"})) << ran.err;
  EXPECT_EQ(cursor()["position"], 20);
  EXPECT_EQ(lines_in(contents_of(out)).size(), 20U) << "all batches before it came";
}

TEST_F(StreamResumeCliTest, a_fifo_is_no_cursor_file_and_is_not_waited_for) {
  ASSERT_EQ(::mkfifo(cursor_.c_str(), 0600), 0);
  const Ran ran = stream({"--batch-size", "7", "--max-batches", "1", "--cursor-file", cursor_});
  EXPECT_EQ(ran.signal, 0);
  EXPECT_TRUE(is_one_line_with(ran.err, {cursor_, "not a regular file"})) << ran.err;
}

TEST_F(StreamResumeCliTest, a_link_is_replaced_and_not_written_through) {
  std::filesystem::create_symlink(dir_.file("none"), cursor_);
  EXPECT_EQ(stream({"--batch-size", "7", "--max-batches", "1", "--cursor-file", cursor_}).exit_code,
            0);
  EXPECT_FALSE(std::filesystem::is_symlink(cursor_));
  EXPECT_FALSE(std::filesystem::exists(dir_.file("none")));
}

}  // namespace
}  // namespace stoker::testing
