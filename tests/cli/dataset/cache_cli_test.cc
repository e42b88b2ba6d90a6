// `stoker stage`, `stoker cache` and `stoker stream --cache`.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cli/run_command.h"
#include "dataset/dataset_support.h"

namespace stoker::testing {
namespace {

using nlohmann::json;

class CacheCliTest : public ::testing::Test {
 protected:
  CacheCliTest() {
    std::filesystem::create_directories(shards_);
    write_tar(shards_ + "/s0.tar", make_samples(30));
    write_tar(shards_ + "/s1.tar", make_samples(20, 30));
    for (const char* const name : {"/s0.tar", "/s1.tar"})
      bytes_ += std::filesystem::file_size(shards_ + name);
  }
  Ran stoker(const std::vector<std::string>& args) const { return run_stoker({.args = args}); }
  json json_of(std::vector<std::string> args) const {
    args.emplace_back("--json");
    const Ran ran = stoker(args);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    return json::parse(ran.out);
  }

  const DatasetDir dir_;
  const std::string shards_ = dir_.file("shards");
  const std::string cache_ = dir_.file("cache");
  const std::vector<std::string> options_ = {"--cache", cache_, "--cache-size", "64MiB"};
  std::uint64_t bytes_ = 0;
};

TEST_F(CacheCliTest, what_was_staged_is_streamed_without_reading_the_source) {
  std::vector<std::string> stage = {"stage", shards_};
  stage.insert(stage.end(), options_.begin(), options_.end());
  json staged = json_of(stage);
  EXPECT_EQ(staged["staged_bytes"], bytes_);
  EXPECT_EQ(staged["dataset_bytes"], bytes_);
  EXPECT_EQ(staged["fetched_bytes"], bytes_);
  staged = json_of(stage);
  EXPECT_EQ(staged["staged_bytes"], bytes_);
  EXPECT_EQ(staged["fetched_bytes"], 0U) << "it was there";

  std::vector<std::string> stream = {"stream", shards_, "--batch-size", "5"};
  const json plain = json_of(stream);
  stream.insert(stream.end(), options_.begin(), options_.end());
  const json cached = json_of(stream);
  EXPECT_EQ(cached["samples"], plain["samples"]);
  EXPECT_EQ(cached["bytes"], plain["bytes"]);
  EXPECT_EQ(cached["cache"]["fetched_bytes"], 0U);
  EXPECT_EQ(cached["cache"]["passed_bytes"], 0U);
  EXPECT_GT(cached["cache"]["hit_bytes"], 0U);
  EXPECT_FALSE(plain.contains("cache"));
  const Ran text = stoker(stream);
  EXPECT_NE(text.err.find("from the source in its first epoch"), std::string::npos) << text.err;
  EXPECT_NE(text.out.find("  cache  "), std::string::npos) << text.out;
}

TEST_F(CacheCliTest, a_cache_is_listed_verified_healed_and_cleared) {
  std::vector<std::string> stage = {"stage", shards_};
  stage.insert(stage.end(), options_.begin(), options_.end());
  json_of(stage);
  const json listed = json_of({"cache", "ls", cache_});
  ASSERT_EQ(listed["objects"].size(), 2U);
  EXPECT_NE(listed["objects"][0]["object"].get<std::string>().find("/s0.tar"), std::string::npos);
  EXPECT_EQ(listed["size_bytes"], bytes_ + 2 * 4096);
  EXPECT_EQ(json_of({"cache", "verify", cache_})["chunks"], 2U);

  for (const auto& entry : std::filesystem::recursive_directory_iterator(cache_ + "/chunks"))
    if (entry.is_regular_file()) {
      std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
      file.seekp(5000);
      file.put('!');
      break;
    }
  const Ran damaged = stoker({"cache", "verify", cache_});
  EXPECT_EQ(damaged.exit_code, 1);
  EXPECT_NE(damaged.out.find("checksum mismatch"), std::string::npos) << damaged.out;
  EXPECT_NE(damaged.out.find("1 damaged"), std::string::npos) << damaged.out;
  EXPECT_EQ(json_of({"cache", "verify", cache_})["chunks"], 1U);
  EXPECT_GT(json_of({"cache", "clear", cache_})["removed_bytes"], 0U);
  EXPECT_EQ(json_of({"cache", "ls", cache_})["objects"].size(), 0U);
}

TEST_F(CacheCliTest, misuse_is_said) {
  EXPECT_EQ(stoker({"stage", shards_}).exit_code, 2);
  EXPECT_EQ(stoker({"stream", shards_, "--cache", cache_}).exit_code, 2);
  EXPECT_EQ(stoker({"stream", shards_, "--cache", cache_, "--cache-size", "1MiB"}).exit_code, 2);
  EXPECT_EQ(stoker({"stream", shards_, "--cache", shards_, "--cache-size", "64MiB"}).exit_code, 2);
  const Ran other = stoker({"cache", "clear", shards_});
  EXPECT_EQ(other.exit_code, 2);
  EXPECT_NE(other.err.find("not a cache"), std::string::npos) << other.err;
  EXPECT_TRUE(std::filesystem::exists(shards_ + "/s0.tar"));
}

}  // namespace
}  // namespace stoker::testing
