// `stoker cp`.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/run_command.h"
#include "dataset/dataset_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CpCliTest : public ::testing::Test {
 protected:
  CpCliTest() {
    std::filesystem::create_directories(shards_);
    write_tar(shards_ + "/s0.tar", make_samples(30));
    write_tar(shards_ + "/s1.tar", make_samples(20, 30));
  }
  Ran stoker(const std::vector<std::string>& args) const { return run_stoker({.args = args}); }
  static std::string file_bytes(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
  }

  const DatasetDir dir_;
  const std::string shards_ = dir_.file("shards");
};

TEST_F(CpCliTest, a_folder_is_copied_and_what_is_there_is_not) {
  const std::string copy = dir_.file("copy");
  const Ran first = stoker({"cp", shards_, "file://" + copy});
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_TRUE(first.out.starts_with("2 files copied (")) << first.out;
  for (const char* const name : {"/s0.tar", "/s1.tar"})
    EXPECT_EQ(file_bytes(copy + name), file_bytes(shards_ + name));
  std::filesystem::remove(copy + "/s1.tar");
  const Ran again = stoker({"cp", shards_, copy, "--json"});
  ASSERT_EQ(again.exit_code, 0) << again.err;
  const json told = json::parse(again.out);
  EXPECT_EQ(told["copied"], 1);
  EXPECT_EQ(told["present"], 1);
  EXPECT_EQ(told["verified"], true);
  EXPECT_EQ(told["copied_bytes"], std::filesystem::file_size(shards_ + "/s1.tar"));
}

TEST_F(CpCliTest, several_sources_keep_their_names_in_the_destination) {
  const Ran ran = stoker({"cp", shards_ + "/s0.tar", shards_, dir_.file("all")});
  ASSERT_EQ(ran.exit_code, 0) << ran.err;
  EXPECT_TRUE(std::filesystem::exists(dir_.file("all/s0.tar")));
  EXPECT_TRUE(std::filesystem::exists(dir_.file("all/shards/s1.tar")));
  ASSERT_EQ(stoker({"cp", shards_ + "/", dir_.file("one") + "/"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(dir_.file("one/shards/s1.tar")));
}

TEST_F(CpCliTest, what_cannot_be_copied_is_refused_with_its_reason) {
  const auto refusal = [&](const std::vector<std::string>& args, int exit_code) {
    const Ran ran = stoker(args);
    EXPECT_EQ(ran.exit_code, exit_code) << ran.err;
    return ran.err;
  };
  EXPECT_NE(refusal({"cp", shards_}, 2).find("DST"), std::string::npos);
  EXPECT_NE(refusal({"cp", dir_.file("none"), dir_.file("x")}, 1).find("none"), std::string::npos);
  EXPECT_NE(refusal({"cp", shards_ + "/..", dir_.file("x") + "/"}, 2).find("no name to keep"),
            std::string::npos);
  EXPECT_NE(refusal({"cp", "pipe:cat x", dir_.file("x")}, 1).find("s3://"), std::string::npos);
  EXPECT_NE(refusal({"cp", shards_, "https://host/x"}, 2).find("only copied from"),
            std::string::npos);
  EXPECT_NE(refusal({"cp", shards_, dir_.file("x"), "--if-present", "ask"}, 2).find("compare"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("x")));
}

}  // namespace
}  // namespace stoker::testing
