// `stoker pack` of what Python reads: when it hands over, to whom, and with which words.
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "cli/run_command.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

/// A Python that prints its words after the program, one in each line, and which signals the
/// caller left blocked.
std::string make_interpreter(const TempDir& dir) {
  std::string path = dir.file("python");
  write_text(path,
             "#!/bin/sh\nshift 2\nprintf '%s\\n' \"$@\"\n"
             "grep SigBlk /proc/self/status | tr -d '\\t'\n");
  ::chmod(path.c_str(), 0755);
  return path;
}

Ran pack_with(const TempDir& dir, const std::vector<std::string>& args) {
  std::vector<std::string> all = {"pack"};
  all.insert(all.end(), args.begin(), args.end());
  return run_stoker({.args = all, .environment = {{"STOKER_PYTHON", make_interpreter(dir)}}});
}

TEST(PackImportCliTest, hands_over_what_was_typed) {
  const TempDir dir;
  write_text(dir.file("a.parquet"), "PAR1....");
  const Ran ran =
      pack_with(dir, {dir.file("a.parquet"), dir.file("dst"), "--columns", "a,b", "--where",
                      "label < 10", "--key", "id", "--samples-per-shard", "7", "--shard-size",
                      "1MiB", "--threads", "3", "--task", "1/4", "--json"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out,
            "--from=parquet\n--format=tar\n--columns=a,b\n--where=label < 10\n--key=id\n"
            "--shard-size=1MiB\n--prefix=shard\n--task=1/4\n--samples-per-shard=7\n"
            "--threads=3\n--json\n--\n" +
                dir.file("a.parquet") + "\n" + dir.file("dst") + "\nSigBlk:0000000000000000\n");
}

TEST(PackImportCliTest, a_tokenizer_makes_tokens) {
  const TempDir dir;
  write_text(dir.file("a.txt"), "text");
  const Ran ran = pack_with(dir, {dir.file("a.txt"), dir.file("dst"), "--tokenizer", "t.json",
                                  "--eod", "0", "--lines", "--text-field", "body"});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_EQ(ran.out.substr(0, ran.out.find("\n--\n")),
            "--from=text\n--format=tokens\n--tokenizer=t.json\n--eod=0\n--text-field=body\n"
            "--prefix=shard\n--lines");
}

TEST(PackImportCliTest, kinds_are_recognised_unless_named) {
  const TempDir dir;
  write_text(dir.file("hf/dataset_dict.json"), "{}");
  write_text(dir.file("deep/year=2024/month=1/x.parquet"), "");
  write_text(dir.file("db/data.mdb"), "");
  write_text(dir.file("a.bin"), "\x89HDF\r\n\x1a\n");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"hf", "arrow"}, {"deep", "parquet"}, {"db", "lmdb"}, {"a.bin", "hdf5"}};
  for (const auto& [name, kind] : cases) {
    const Ran ran = pack_with(dir, {dir.file(name), dir.file("dst")});
    EXPECT_TRUE(ran.out.starts_with("--from=" + kind + "\n")) << name << ": " << ran.out << ran.err;
  }
  const Ran named = pack_with(dir, {dir.file("hf"), dir.file("dst"), "--from", "petastorm"});
  EXPECT_TRUE(named.out.starts_with("--from=petastorm\n")) << named.out;
  const Ran tree = pack_with(dir, {dir.file("deep"), dir.file("dst"), "--from", "tree"});
  EXPECT_TRUE(is_one_line_with(tree.out, {"1 sample in 1 shard (tar)"})) << tree.out << tree.err;
}

TEST(PackImportCliTest, misuse_is_said_before_python_starts) {
  const TempDir dir;
  write_text(dir.file("src/x.jpg"), "x");
  write_text(dir.file("a.parquet"), "PAR1");
  const std::string tree = dir.file("src");
  const std::string table = dir.file("a.parquet");
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{tree, dir.file("dst"), "--columns", "a"}, "--columns has no meaning here"},
      {{tree, dir.file("dst"), "--lines"}, "--lines has no meaning here"},
      {{tree, dir.file("dst"), "--from", "tree", "--eod", "1"}, "is packed as tree"},
      {{table, dir.file("dst"), "--from", "text"}, "--tokenizer tokenizer.json --eod ID"},
      {{table, dir.file("dst"), "--from", "lmdb", "--tokenizer", "t"}, "not for lmdb"},
      {{table, dir.file("dst"), "--dtype", "uint16"}, "are for arrays"},
      {{table, dir.file("dst"), "--task", "3"}, "not of the form I/N"},
      {{table, dir.file("dst"), "--from", "parket"}, "is not known"},
  };
  for (const auto& [args, message] : cases) {
    const Ran ran = pack_with(dir, args);
    EXPECT_EQ(ran.exit_code, 2) << message << ran.out;
    EXPECT_TRUE(is_one_line_with(ran.err, {"stoker pack: ", message})) << ran.err;
  }
}

TEST(PackImportCliTest, a_source_that_is_missing_is_told_whatever_the_options) {
  const TempDir dir;
  const std::string missing = dir.file("rows.parket");
  const Ran ran = pack_with(dir, {missing, dir.file("dst"), "--columns", "a"});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {missing, "No such file or directory"})) << ran.err;
}

TEST(PackImportCliTest, without_python_or_its_package_one_line_says_what_to_do) {
  const TempDir dir;
  write_text(dir.file("a.parquet"), "PAR1");
  Ran ran = run_stoker({.args = {"pack", dir.file("a.parquet"), dir.file("dst")},
                        .environment = {{"STOKER_PYTHON", dir.file("nowhere/python")}}});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"nowhere/python", "STOKER_PYTHON"})) << ran.err;
  ran = run_stoker({.args = {"pack", dir.file("a.parquet"), dir.file("dst")},
                    .environment = {{"STOKER_PYTHON", ""}, {"PATH", dir.file("nowhere")}}});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"python3", "STOKER_PYTHON"})) << ran.err;
}

TEST(PackImportCliTest, a_python_without_the_package_is_told_how_it_is_installed) {
  const TempDir dir;
  write_text(dir.file("a.parquet"), "PAR1");
  const std::string python = dir.file("python");
  write_text(python, "#!/bin/sh\nexec python3 -I -S \"$@\"\n");  // without site-packages
  ::chmod(python.c_str(), 0755);
  const Ran ran = run_stoker({.args = {"pack", dir.file("a.parquet"), dir.file("dst")},
                              .environment = {{"STOKER_PYTHON", python}}});
  EXPECT_EQ(ran.exit_code, 1);
  // Not `pip install stoker`: the index has no project of that name yet.
  EXPECT_TRUE(is_one_line_with(
      ran.err, {"No module named 'stoker'", "`pip install .` in a checkout", "STOKER_PYTHON"}))
      << ran.err;
}

}  // namespace
}  // namespace stoker::testing
