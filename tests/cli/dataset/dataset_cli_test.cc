// `stoker index`, `ls`, `cat` and `stats`: what they print, how they exit, what they leave behind.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "cli/run_command.h"
#include "dataset/dataset_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

std::vector<json> lines_of(const std::string& text) {
  std::vector<json> lines;
  for (std::size_t start = 0; start < text.size();) {
    const std::size_t end = text.find('\n', start);
    lines.push_back(json::parse(text.substr(start, end - start)));
    start = end + 1;
  }
  return lines;
}

class DatasetCliTest : public ::testing::Test {
 protected:
  DatasetCliTest() {
    std::filesystem::create_directories(shards_);
    write_tar(shards_ + "/s0.tar", make_samples(3));
    write_tar(shards_ + "/s1.tar", make_samples(2, 3));
  }
  Ran stoker(const std::vector<std::string>& args) const { return run_stoker({.args = args}); }

  const DatasetDir dir_;
  const std::string shards_ = dir_.file("shards");
};

TEST_F(DatasetCliTest, index_says_what_it_found_and_where) {
  Ran ran = stoker({"index", shards_});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.err, "") << "no terminal, no progress";
  EXPECT_TRUE(ran.out.starts_with(shards_ + ": 5 samples in 2 shards (tar), ")) << ran.out;
  EXPECT_NE(ran.out.find(shards_ + "/.stoker/index-"), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find("unchecked (stoker index --checksums"), std::string::npos) << ran.out;

  ran = stoker({"index", shards_, "--checksums", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json made = json::parse(ran.out);
  EXPECT_EQ(made["samples"], 5);
  EXPECT_EQ(made["shards"], 2);
  EXPECT_EQ(made["format"], "tar");
  EXPECT_EQ(made["checks"], "index");
  EXPECT_EQ(made["fingerprint"].get<std::string>().size(), 32U);
  EXPECT_TRUE(std::filesystem::exists(made["index"].get<std::string>()));
  EXPECT_EQ(made["size_bytes"].get<std::uint64_t>(),
            std::filesystem::file_size(shards_ + "/s0.tar") +
                std::filesystem::file_size(shards_ + "/s1.tar"));
}

TEST_F(DatasetCliTest, a_pipe_is_refused_and_not_waited_for) {
  const std::string pipe = dir_.file("pipe.tar");
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::vector<std::string>& args :
       {std::vector<std::string>{"ls", pipe},
        {"index", pipe},
        {"index", pipe, "--format", "tar"},
        {"stats", pipe},
        {"convert", pipe, dir_.file("out"), "--format", "mds"},
        {"pack", pipe, dir_.file("out2"), "--from", "jsonl"}}) {
    const Ran ran = stoker(args);  // SIGALRM would end one that hangs
    EXPECT_EQ(ran.exit_code, 2) << args[0] << ran.err;
    EXPECT_TRUE(is_one_line_with(ran.err, {pipe, "not a regular file"})) << ran.err;
  }
}

TEST_F(DatasetCliTest, index_is_reused_until_asked_to_rebuild) {
  const Ran first = stoker({"index", shards_, "-v"});
  EXPECT_NE(first.err.find("indexing: 2/2 shards, 5 samples\n"), std::string::npos) << first.err;
  EXPECT_EQ(stoker({"index", shards_, "-v"}).err, "");
  EXPECT_NE(stoker({"index", shards_, "-v", "--rebuild"}).err, "");
  EXPECT_EQ(stoker({"index", shards_ + "/", "-v"}).err, "") << "the same directory";
  EXPECT_EQ(stoker({"index", shards_ + "/*.tar", "-v"}).err, "") << "the same shards";
}

TEST_F(DatasetCliTest, a_damaged_index_fails_verify_and_is_rebuilt_by_index) {
  const std::string path =
      json::parse(stoker({"index", shards_, "--checksums", "--json"}).out)["index"];
  testing::flip_bit(path, 4096 + 17);
  const Ran verified = stoker({"verify", shards_});
  EXPECT_EQ(verified.exit_code, 1);
  EXPECT_NE(verified.out.find(path + ": index: the entries"), std::string::npos) << verified.out;

  const Ran rebuilt = stoker({"index", shards_, "--json"});
  EXPECT_EQ(rebuilt.exit_code, 0);
  EXPECT_TRUE(is_one_line_with(rebuilt.err, {"warning", path, "damaged", "rebuilt"}))
      << rebuilt.err;
  EXPECT_EQ(json::parse(rebuilt.out)["checks"], "index");
  EXPECT_EQ(stoker({"verify", shards_}).exit_code, 0);
  EXPECT_EQ(stoker({"index", shards_}).err, "");
}

TEST_F(DatasetCliTest, index_of_a_read_only_dataset_goes_to_the_cache) {
  const DatasetDir cache;
  ASSERT_EQ(::chmod(dir_.path().c_str(), 0755), 0);
  ASSERT_EQ(::chmod(cache.path().c_str(), 0777), 0);
  const testing::Run run{.args = {"index", shards_, "--json"},
                         .environment = {{"XDG_CACHE_HOME", cache.path()}},
                         .in_child = become_nobody};
  Ran ran = run_stoker(run);
  if (ran.exit_code == kCannotSetUp) GTEST_SKIP() << "only root can become nobody";
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(json::parse(ran.out)["index"].get<std::string>().starts_with(cache.path() +
                                                                           "/stoker/index/"));
  EXPECT_FALSE(std::filesystem::exists(shards_ + "/.stoker"));

  ran = run_stoker({.args = {"index", shards_},
                    .environment = {{"XDG_CACHE_HOME", "not/absolute"}, {"HOME", ""}},
                    .in_child = become_nobody});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"no place for the index", "writable", shards_}))
      << ran.err;

  ran = run_stoker({.args = {"ls", shards_},
                    .environment = {{"XDG_CACHE_HOME", ""}, {"HOME", "/dev/null"}},
                    .in_child = become_nobody});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out, stoker({"ls", shards_}).out);
  EXPECT_TRUE(is_one_line_with(ran.err, {"warning", shards_, "in memory", "XDG_CACHE_HOME"}))
      << ran.err;
}

TEST_F(DatasetCliTest, ls_has_a_line_for_each_sample) {
  const Ran ran = stoker({"ls", shards_});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(std::count(ran.out.begin(), ran.out.end(), '\n'), 6) << ran.out;
  EXPECT_TRUE(ran.out.starts_with(shards_ + ": 5 samples in 2 shards (tar), ")) << ran.out;
  EXPECT_NE(ran.out.find("       4  folder/0004  cls 1 B, jpg 248 B\n"), std::string::npos)
      << ran.out;
}

TEST_F(DatasetCliTest, ls_json_is_an_object_for_each_sample) {
  const Ran ran = stoker({"ls", shards_, "--json", "--limit", "4"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const std::vector<json> lines = lines_of(ran.out);
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[3]["number"], 3);
  EXPECT_EQ(lines[3]["key"], "folder/0003");
  EXPECT_EQ(lines[3]["dataset"], shards_);
  EXPECT_EQ(lines[3]["fields"]["cls"], (json{{"size_bytes", 1}, {"type", "text"}}));
  EXPECT_EQ(lines[3]["fields"]["jpg"]["size_bytes"], 211);
  EXPECT_EQ(stoker({"ls", shards_, "--json", "--limit", "0"}).out, "");
}

TEST_F(DatasetCliTest, files_together_are_one_dataset_and_each_directory_is_one) {
  const std::string other = dir_.file("other");
  write_mds(other, make_samples(4), 3);
  const Ran ran = stoker({"ls", shards_ + "/s1.tar", other, shards_ + "/s0.tar", "--limit", "1"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(ran.out.starts_with(shards_ + ": 5 samples in 2 shards (tar), ")) << ran.out;
  EXPECT_NE(ran.out.find("       0  folder/0003  "), std::string::npos) << "in the order given";
  EXPECT_NE(ran.out.find(other + ": 4 samples in 2 shards (mds), "), std::string::npos) << ran.out;
}

TEST_F(DatasetCliTest, names_cannot_command_the_terminal) {
  OwnedSample sample = make_sample(0);
  sample.key = "a\x1b[2Jb";
  write_tar(dir_.file("x.tar"), std::vector{sample});
  const Ran ran = stoker({"ls", dir_.file("x.tar")});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("  a?[2Jb  "), std::string::npos) << ran.out;
}

TEST_F(DatasetCliTest, cat_prints_a_field_byte_for_byte) {
  const std::string image = make_sample(4).fields[1].bytes;
  for (const char* what : {"#4.jpg", "folder/0004.jpg"}) {
    const Ran ran = stoker({"cat", shards_, what});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(ran.out, image) << what;
  }
}

TEST_F(DatasetCliTest, cat_prints_a_sample_as_json_without_its_large_fields) {
  for (const char* what : {"#4", "folder/0004"}) {
    const Ran ran = stoker({"cat", shards_, what});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(
        json::parse(ran.out),
        (json{{"number", 4},
              {"key", "folder/0004"},
              {"fields", {{"cls", "4"}, {"jpg", {{"size_bytes", 248}, {"type", "bytes"}}}}}}));
  }
}

TEST_F(DatasetCliTest, cat_finds_samples_of_formats_without_keys) {
  OwnedSample sample{.key = "", .fields = {{.name = "image/encoded", .bytes = "JPEG"}}};
  write_tfrecord(dir_.file("train.v1.tfrecord"), std::vector{sample, sample});
  Ran ran = stoker({"cat", dir_.file("train.v1.tfrecord"), "train.v1/1.image/encoded"});
  EXPECT_EQ(ran.out, "JPEG") << ran.err;
  write_megatron(dir_.file("tokens"), std::vector<std::size_t>{3, 2});
  ran = stoker({"cat", dir_.file("tokens.idx"), "tokens/1.tokens"});
  EXPECT_EQ(ran.out, make_tokens(1, 2)) << ran.err;
  ran = stoker({"cat", dir_.file("tokens.idx"), "#1"});
  EXPECT_EQ(json::parse(ran.out)["fields"]["tokens"],
            (json{{"size_bytes", 4}, {"type", "array"}, {"dtype", "<u2"}, {"shape", {2}}}));
}

TEST_F(DatasetCliTest, stats_has_fields_and_a_histogram) {
  Ran ran = stoker({"stats", shards_});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  for (const char* part :
       {"5 samples in 2 shards", "unchecked", "fields of all samples", "█", ">= 2 KiB", "jpg"})
    EXPECT_NE(ran.out.find(part), std::string::npos) << part << "\n" << ran.out;

  ran = stoker({"stats", shards_, "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  const json stats = json::parse(ran.out);
  EXPECT_EQ(stats["samples"], 5);
  EXPECT_EQ(stats["read_samples"], 5);
  EXPECT_EQ(stats["is_sampled"], false);
  EXPECT_EQ(stats["fields"]["cls"], (json{{"count", 5},
                                          {"min_bytes", 1},
                                          {"mean_bytes", 1},
                                          {"max_bytes", 1},
                                          {"total_bytes", 5}}));
  EXPECT_EQ(stats["fields"]["jpg"]["max_bytes"], 248);
  std::uint64_t in_histogram = 0;
  for (const json& bucket : stats["histogram"])
    in_histogram += bucket["count"].get<std::uint64_t>();
  EXPECT_EQ(in_histogram, 5U);
}

TEST_F(DatasetCliTest, stats_counts_classes_and_tokens) {
  write_file(shards_ + "/classes.json", bytes_of(R"({"cat": 0, "dog": 1})"));
  json stats = json::parse(stoker({"stats", shards_, "--json"}).out);
  std::uint64_t counted = 0;
  for (const json& one : stats["classes"]) counted += one["count"].get<std::uint64_t>();
  EXPECT_EQ(counted, 5U) << stats;
  EXPECT_EQ(stats["classes"][0], (json{{"number", 0}, {"name", "cat"}, {"count", 1}})) << stats;
  EXPECT_FALSE(stats.contains("tokens"));
  Ran ran = stoker({"stats", shards_});
  EXPECT_NE(ran.out.find("classes (field cls) of these: "), std::string::npos) << ran.out;
  EXPECT_NE(ran.out.find(" 0 cat "), std::string::npos) << ran.out;

  write_tokens(dir_.file("tokens.bin"), TokenFormat::npy, 4, 3);
  ran = stoker({"stats", dir_.file("tokens.bin")});
  EXPECT_NE(ran.out.find("tokens: 12 (uint16), 3 to 3 in a sample, 3 on average"),
            std::string::npos)
      << ran.out << ran.err;
  stats = json::parse(stoker({"stats", dir_.file("tokens.bin"), "--json"}).out);
  EXPECT_EQ(stats["tokens"], (json{{"count", 12}, {"dtype", "uint16"}, {"min", 3}, {"max", 3}}));
}

TEST_F(DatasetCliTest, stats_of_many_samples_reads_some_and_says_so) {
  Ran ran = stoker({"stats", shards_, "--limit", "2"});
  EXPECT_NE(ran.out.find("fields of 2 samples, evenly spread"), std::string::npos) << ran.out;
  ran = stoker({"stats", shards_, "--limit", "2", "--json"});
  EXPECT_EQ(json::parse(ran.out)["is_sampled"], true);
  EXPECT_EQ(json::parse(ran.out)["records"]["count"], 5) << "sizes come from the index";
}

TEST_F(DatasetCliTest, bad_input_is_one_line_and_a_status) {
  write_file(dir_.file("x.tar.gz"), bytes_of("\x1f\x8b\x08 rest"));
  write_file(dir_.file("notes.txt"), bytes_of("hello"));
  write_tokens(dir_.file("t.bin"), TokenFormat::raw, 2, 3);
  write_tar(dir_.file("bad.tar"), make_samples(3));
  flip_bit(dir_.file("bad.tar"), 3);
  std::filesystem::create_directories(dir_.file("empty"));
  const std::vector<std::tuple<int, std::vector<std::string>, std::vector<std::string>>> cases = {
      {1, {"index", dir_.file("nothing")}, {"No such file"}},
      {1, {"index", dir_.file("none*.tar")}, {"no file matches"}},
      {1, {"ls", dir_.file("empty")}, {"it contains no shards"}},
      {1, {"ls", dir_.file("x.tar.gz")}, {"gzip", "stoker convert"}},
      {1, {"ls", dir_.file("bad.tar")}, {"bad.tar", "offset 0"}},
      {1, {"ls", "gs://bucket/a.tar"}, {"gs://bucket/a.tar", "no such store"}},
      {1, {"ls", "pipe:cat a.tar"}, {"s3://bucket/prefix"}},
      {2, {"ls", dir_.file("notes.txt")}, {"notes.txt", "--format"}},
      {2, {"ls", dir_.file("t.bin"), "--format", "raw"}, {"dtype"}},
      {2, {"ls", dir_.file("t.bin"), "--format", "raw", "--dtype", "u9"}, {"--dtype", "u9"}},
      {2, {"ls", shards_, "--format", "zip"}, {"zip", "tar, tfrecord"}},
      {2, {"ls", dir_.file("{0..")}, {"brace"}},
      {1, {"cat", shards_, "folder/9"}, {shards_ + ": no sample has the key", "folder/9"}},
      {1, {"cat", shards_ + "/s0.tar", "folder/9"}, {shards_ + "/s0.tar: no sample has"}},
      {1, {"cat", shards_, "#1.png"}, {shards_ + ": sample", "no field \"png\"", "cls, jpg"}},
      {2, {"cat", shards_, "#5"}, {shards_ + ": there is no sample 5: there are 5, from 0"}},
      {2, {"cat", shards_, "#"}, {"#17.FIELD"}},
      {2, {"cat", shards_, "#1x"}, {"#17.FIELD"}},
      {2, {"cat", shards_, "#1."}, {"#17.FIELD"}},
      {2, {"cat", shards_, "#99999999999999999999"}, {"#17.FIELD"}},
  };
  for (const auto& [exit_code, args, parts] : cases) {
    const Ran ran = stoker(args);
    EXPECT_EQ(ran.exit_code, exit_code) << args[1] << ": " << ran.err;
    EXPECT_TRUE(is_one_line_with(ran.err, parts)) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
}

TEST_F(DatasetCliTest, a_tilde_is_the_home_directory_as_in_python) {
  const auto at_home = [&](const std::vector<std::string>& args) {
    return run_stoker({.args = args, .environment = {{"HOME", dir_.path()}}});
  };
  Ran ran = at_home({"ls", "~/shards"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  ran = at_home({"stream", "~/shards", "--batch-size=1", "--cursor-file=~/cursor"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(dir_.file("cursor")));
  ran = at_home({"convert", "~/shards", "~/converted", "--format", "mds"});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(dir_.file("converted/index.json")));
  ran = at_home({"verify", "~"});
  EXPECT_NE(ran.err.find(dir_.path()), std::string::npos) << ran.err;
  ran = at_home({"ls", "~no-such-user/shards"});
  EXPECT_TRUE(is_one_line_with(ran.err, {"~no-such-user/shards: No such file"})) << ran.err;
  ran = at_home({"cat", "~/shards", "~/shards"});
  EXPECT_TRUE(is_one_line_with(ran.err, {"no sample has the key \"~/shards\""})) << ran.err;
}

TEST_F(DatasetCliTest, misuse_exits_with_2) {
  const std::vector<std::vector<std::string>> misuses = {{"index"},
                                                         {"ls"},
                                                         {"stats"},
                                                         {"cat", shards_},
                                                         {"cat", shards_, "#1", "#2"},
                                                         {"ls", shards_, "--limit", "-1"},
                                                         {"ls", shards_, "--limit", "many"},
                                                         {"stats", shards_, "--limit", "0"},
                                                         {"index", shards_, "--frobnicate"}};
  for (const std::vector<std::string>& args : misuses) {
    const Ran ran = stoker(args);
    EXPECT_EQ(ran.exit_code, 2) << args[0] << ran.err;
    EXPECT_EQ(ran.out, "");
    EXPECT_NE(ran.err, "");
    EXPECT_LT(ran.err.size(), 200U) << "a line that can be read: " << ran.err;
  }
  EXPECT_FALSE(std::filesystem::exists(shards_ + "/.stoker")) << "nothing was done";
}

TEST_F(DatasetCliTest, samples_before_a_damaged_one_are_listed) {
  ASSERT_EQ(stoker({"index", shards_, "--checksums"}).exit_code, 0);
  flip_bit(shards_ + "/s1.tar", 512);
  const Ran ran = stoker({"ls", shards_, "--json"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_EQ(lines_of(ran.out).size(), 3U);
  EXPECT_TRUE(is_one_line_with(ran.err, {shards_ + "/s1.tar: sample 3 at byte 0", "checksum"}))
      << ran.err;
}

TEST_F(DatasetCliTest, a_reader_that_went_away_ends_it_as_sigpipe_does_and_quietly) {
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"ls", shards_}, {"index", shards_}, {"cat", shards_, "#0.jpg"}, {"stats", shards_}}) {
    int ends[2] = {-1, -1};
    ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    const UniqueFd write_end(ends[1]);
    ::close(ends[0]);
    const Ran ran = run_stoker({.args = args, .stdout_fd = write_end.get()});
    EXPECT_EQ(ran.signal, SIGPIPE) << args[0] << ran.exit_code;
    EXPECT_EQ(ran.err, "");
  }
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Ran ran = run_stoker({.args = {"ls", shards_}, .stdout_fd = full.get()});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"standard output", "No space left"})) << ran.err;
}

TEST_F(DatasetCliTest, a_full_disk_in_the_middle_of_a_list_is_named) {
  const std::string rows = dir_.file("rows");
  std::ofstream(dir_.file("t.bin"), std::ios::binary) << std::string(4 * 4000, 'x');
  ASSERT_EQ(stoker({"pack", dir_.file("t.bin"), rows, "--format", "counted", "--dtype", "int32",
                    "--sequence-length", "1"})
                .exit_code,
            0);
  ASSERT_GT(stoker({"ls", rows, "--json"}).out.size(), 80'000U) << "more than one write";
  const UniqueFd full(::open("/dev/full", O_WRONLY | O_CLOEXEC));
  const Ran ran = run_stoker({.args = {"ls", rows, "--json"}, .stdout_fd = full.get()});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"standard output", "No space left"})) << ran.err;
}

TEST_F(DatasetCliTest, an_interrupt_while_indexing_exits_with_130_and_leaves_no_half_index) {
  const std::string many = dir_.file("many");
  std::filesystem::create_directories(many);
  for (std::size_t i = 0; i < 400; ++i)
    write_tar(many + "/" + std::to_string(1000 + i) + ".tar", make_samples(1));
  const auto interrupt = [](pid_t process, std::string_view line) {
    if (line.starts_with("indexing: 1/")) ::kill(process, SIGINT);
  };
  const Ran ran =
      run_stoker({.args = {"index", many, "--checksums", "-v"}, .on_err_line = interrupt});
  if (ran.exit_code == 0) GTEST_SKIP() << "it was faster than the signal";
  EXPECT_EQ(ran.exit_code, 130) << ran.signal << ran.err;
  EXPECT_EQ(ran.out, "");
  // The signal may come when the index is finished; then it is a whole one, under its own name.
  for (const auto& entry : std::filesystem::directory_iterator(many + "/.stoker"))
    EXPECT_TRUE(entry.path().extension() == ".lock" || !entry.path().has_extension())
        << entry.path();
  const Ran again = stoker({"index", many});
  EXPECT_EQ(again.exit_code, 0);
  EXPECT_EQ(again.err, "");
}

}  // namespace
}  // namespace stoker::testing
