// `stoker pack`, `convert` and `verify` from outside.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "base/unique_fd.h"
#include "cli/run_command.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

void write_text(const std::string& path, const std::string& text) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

void write_images(const TempDir& dir, int count) {
  for (int i = 0; i < count; ++i)
    write_text(dir.file("src/" + std::string(i % 2 == 0 ? "cat" : "dog") + "/" +
                        std::to_string(100 + i) + ".jpg"),
               std::string(static_cast<std::size_t>(50 + i), static_cast<char>('a' + i % 26)));
}

Ran pack_images(const TempDir& dir, const std::vector<std::string>& more = {}) {
  std::vector<std::string> args = {
      "pack", dir.file("src"), dir.file("dst"), "--format", "tar", "--samples-per-shard", "4"};
  args.insert(args.end(), more.begin(), more.end());
  return run_stoker({.args = args});
}

TEST(PackCliTest, packs_verifies_and_says_so) {
  const TempDir dir;
  write_images(dir, 10);
  Ran ran = pack_images(dir);
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(is_one_line_with(ran.out, {"10 samples in 3 shards (tar)"})) << ran.out;
  EXPECT_EQ(ran.err, "") << "progress is for terminals";
  ran = run_stoker({.args = {"verify", dir.file("dst")}});
  EXPECT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(is_one_line_with(ran.out, {"10 samples", "no damage found"})) << ran.out;
  ran = pack_images(dir);
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(is_one_line_with(ran.out, {"3 shards there already"})) << ran.out;
}

TEST(PackCliTest, the_format_is_tar_unless_said) {
  const TempDir dir;
  write_images(dir, 2);
  const Ran ran = run_stoker({.args = {"pack", dir.file("src"), dir.file("dst")}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(is_one_line_with(ran.out, {"2 samples", "(tar)"})) << ran.out;
}

TEST(PackCliTest, a_pack_that_is_refused_leaves_nothing_behind) {
  const TempDir dir;
  write_images(dir, 4);
  Ran ran = run_stoker({.args = {"pack", dir.file("src"), dir.file("src/out")}});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(ran.err, {"is inside", "src-shards"})) << ran.err;
  write_text(dir.file("other/a.txt"), "mine");
  ran = run_stoker({.args = {"pack", dir.file("src"), dir.file("other")}});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_TRUE(is_one_line_with(ran.err, {"not empty (a.txt)"})) << ran.err;
  EXPECT_FALSE(std::filesystem::exists(dir.file("src/out")));
  EXPECT_FALSE(std::filesystem::exists(dir.file("other/.stoker")));
}

TEST(PackCliTest, json_is_for_programs) {
  const TempDir dir;
  write_images(dir, 10);
  const Ran packed = pack_images(dir, {"--json", "--shuffle-seed", "7"});
  const auto report = nlohmann::json::parse(packed.out, nullptr, false);
  EXPECT_EQ(report["samples"], 10);
  EXPECT_EQ(report["complete"], true);
  const Ran verified = run_stoker({.args = {"verify", dir.file("dst"), "--json"}});
  const auto verdict = nlohmann::json::parse(verified.out, nullptr, false);
  EXPECT_EQ(verdict["ok"], true);
  EXPECT_EQ(verdict["problems"].size(), 0U);
}

TEST(PackCliTest, verify_names_what_is_bad_and_exits_with_1) {
  const TempDir dir;
  write_images(dir, 10);
  ASSERT_EQ(pack_images(dir).exit_code, 0);
  {
    std::fstream shard(dir.file("dst/shard-000001.tar"), std::ios::in | std::ios::out);
    shard.seekp(512 * 3);
    shard.put('!');
  }
  Ran ran = run_stoker({.args = {"verify", dir.file("dst")}});
  EXPECT_EQ(ran.exit_code, 1);
  EXPECT_NE(ran.out.find("shard-000001.tar: sample cat/108 at byte 0: checksum mismatch"),
            std::string::npos)
      << ran.out;
  EXPECT_NE(ran.out.find("SHA-256"), std::string::npos) << ran.out;
  ran = run_stoker({.args = {"verify", dir.file("dst"), "--json"}});
  EXPECT_EQ(ran.exit_code, 1);
  const auto verdict = nlohmann::json::parse(ran.out, nullptr, false);
  ASSERT_EQ(verdict["problems"].size(), 2U);
  EXPECT_EQ(verdict["problems"][1]["key"], "cat/108");
  EXPECT_EQ(verdict["problems"][1]["offset_bytes"], 0);
}

TEST(PackCliTest, what_was_killed_before_its_first_shard_is_not_finished) {
  const TempDir dir;
  write_images(dir, 10);
  // A task without a shard of its own leaves what a kill before the first shard leaves.
  ASSERT_EQ(pack_images(dir, {"--task", "7/8"}).exit_code, 0);
  const Ran ran = run_stoker({.args = {"ls", dir.file("dst")}});
  EXPECT_EQ(ran.exit_code, 2);
  EXPECT_TRUE(is_one_line_with(ran.err, {"dst: packing was not finished"})) << ran.err;
}

TEST(PackCliTest, a_hint_quotes_a_path_with_a_space) {
  const TempDir dir;
  write_images(dir, 4);
  const Ran ran =
      run_stoker({.args = {"pack", dir.file("src"), dir.file("my dst"), "--task", "0/2"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_NE(ran.out.find("stoker pack --merge '" + dir.file("my dst") + "'"), std::string::npos)
      << ran.out;
}

TEST(PackCliTest, tasks_and_merge_share_one_job) {
  const TempDir dir;
  write_images(dir, 10);
  for (const char* task : {"0/2", "1/2"}) {
    const Ran ran = pack_images(dir, {"--task", task});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_NE(ran.out.find("stoker pack --merge"), std::string::npos);
  }
  EXPECT_FALSE(std::filesystem::exists(dir.file("dst/manifest.json")));
  const Ran merged = run_stoker({.args = {"pack", "--merge", dir.file("dst")}});
  EXPECT_EQ(merged.exit_code, 0) << merged.err;
  EXPECT_TRUE(is_one_line_with(merged.out, {"10 samples in 3 shards"})) << merged.out;
  EXPECT_EQ(run_stoker({.args = {"verify", dir.file("dst")}}).exit_code, 0);
}

TEST(PackCliTest, converts_between_formats) {
  const TempDir dir;
  write_images(dir, 10);
  ASSERT_EQ(pack_images(dir).exit_code, 0);
  const Ran ran =
      run_stoker({.args = {"convert", dir.file("dst"), dir.file("mds"), "--format", "mds"}});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(is_one_line_with(ran.out, {"10 samples in 1 shard (mds)"})) << ran.out;
  EXPECT_EQ(run_stoker({.args = {"verify", dir.file("mds")}}).exit_code, 0);
}

TEST(PackCliTest, what_is_left_out_is_said_on_stderr) {
  const TempDir dir;
  write_text(dir.file("src/t/a.txt"), "1");
  write_text(dir.file("src/t/README"), "2");
  const Ran ran = pack_images(dir);
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(is_one_line_with(ran.err, {"left out", "t/README"})) << ran.err;
}

TEST(PackCliTest, a_stray_file_does_not_cost_the_labels) {
  const TempDir dir;
  write_images(dir, 10);
  write_text(dir.file("src/cat/Thumbs.db"), "stray");
  const Ran ran = pack_images(dir);
  EXPECT_EQ(ran.exit_code, 0);
  EXPECT_TRUE(is_one_line_with(ran.out, {"10 samples"})) << ran.out;
  EXPECT_TRUE(is_one_line_with(ran.err, {"left out", "cat/Thumbs.db"})) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(dir.file("dst/classes.json")));
}

TEST(PackCliTest, headered_arrays_are_written_and_read) {
  const TempDir dir;
  write_text(dir.file("t.bin"), std::string(4 * 40, 'x'));
  for (const std::string format : {"counted", "shard001"}) {
    SCOPED_TRACE(format);
    const std::string dtype = format == "counted" ? "int32" : "float32";
    Ran ran = run_stoker({.args = {"pack", dir.file("t.bin"), dir.file(format), "--format", format,
                                   "--dtype", dtype, "--sequence-length", "5"}});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_TRUE(is_one_line_with(ran.out, {"8 samples in 1 shard (" + format + ")"})) << ran.out;
    EXPECT_EQ(run_stoker({.args = {"verify", dir.file(format)}}).exit_code, 0);
    ran = run_stoker({.args = {"pack", dir.file(format), dir.file("again-" + format), "--from",
                               format, "--format", "tokens"}});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_TRUE(is_one_line_with(ran.out, {"8 samples"})) << ran.out;
    ran = run_stoker({.args = {"convert", dir.file("again-" + format), dir.file("back-" + format),
                               "--format", format}});
    ASSERT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_EQ(contents_of(dir.file("back-" + format + "/shard-000000.bin")),
              contents_of(dir.file(format + "/shard-000000.bin")));
  }
}

TEST(PackCliTest, ls_and_cat_know_the_keys_that_python_shows) {
  const TempDir dir;
  write_images(dir, 10);
  ASSERT_EQ(pack_images(dir).exit_code, 0);
  for (const std::string format : {"mds", "tfrecord"}) {
    SCOPED_TRACE(format);
    const std::string dst = dir.file(format);
    ASSERT_EQ(run_stoker({.args = {"convert", dir.file("dst"), dst, "--format", format}}).exit_code,
              0);
    Ran ran = run_stoker({.args = {"ls", dst, "--limit", "1"}});
    EXPECT_NE(ran.out.find("cat/100"), std::string::npos) << ran.out;
    ran = run_stoker({.args = {"cat", dst, "dog/103.jpg"}});
    EXPECT_EQ(ran.out, std::string(53, 'd')) << ran.err;
    ran = run_stoker({.args = {"cat", dst, "dog/103"}});
    EXPECT_NE(ran.out.find("\"dog/103\""), std::string::npos) << ran.err;
  }
}

TEST(PackCliTest, misuse_is_one_line_with_the_fix_and_exit_2) {
  const TempDir dir;
  write_images(dir, 2);
  const std::string src = dir.file("src");
  const std::string dst = dir.file("dst");
  const std::vector<std::pair<std::vector<std::string>, std::string>> misuses = {
      {{"pack"}, "SRC and DST"},
      {{"pack", src, dst, "--format", "zip"}, "mds, tokens, counted or shard001"},
      {{"pack", src, dst, "--format", "tar", "--shard-size", "big"}, "--shard-size"},
      {{"pack", src, dst, "--format", "tar", "--samples-per-shard", "0"}, "from 1 on"},
      {{"pack", src, dst, "--format", "tar", "--task", "2/2"}, "0 to N - 1"},
      {{"pack", src, dst, "--format", "tar", "--task", "two"}, "0/8"},
      {{"pack", src, dst, "--format", "tar", "--shuffle-seed", "-1"}, "--shuffle-seed"},
      {{"pack", src, dst, "--format", "tar", "--from", "magic"}, "counted, shard001, parquet"},
      {{"pack", src, dst, "--format", "tokens", "--from", "tree"}, "tar, mds or tfrecord"},
      {{"pack", src, dst, "--sequence-length", "5"}, "are for arrays"},
      {{"pack", src, dst, "--from", "tree", "--dtype", "int32"}, "are for arrays"},
      {{"pack", src, dst, "--from", "tokens", "--sequence-length", "0"}, "from 1 on"},
      {{"convert", src, dst}, "--format"}};
  for (const auto& [args, part] : misuses) {
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 2) << part;
    EXPECT_TRUE(is_one_line_with(ran.err, {part})) << ran.err;
    EXPECT_EQ(ran.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(dst));
}

TEST(PackCliTest, failures_are_one_line_and_exit_1) {
  const TempDir dir;
  write_images(dir, 2);
  write_text(dir.file("full/mine.txt"), "x");
  for (const std::vector<std::string>& args : std::vector<std::vector<std::string>>{
           {"pack", dir.file("absent"), dir.file("dst"), "--format", "tar"},
           {"pack", dir.file("src"), dir.file("full"), "--format", "tar"},
           {"pack", "--merge", dir.file("full")},
           {"verify", dir.file("absent")},
           {"verify", dir.file("full")},
           {"convert", dir.file("absent"), dir.file("dst"), "--format", "tar"}}) {
    const Ran ran = run_stoker({.args = args});
    EXPECT_EQ(ran.exit_code, 1) << args[0];
    EXPECT_TRUE(is_one_line_with(ran.err, {"stoker " + args[0]})) << ran.err;
  }
}

}  // namespace
}  // namespace stoker::testing
