#include "dataset/shards/shard_names.h"

#include <gtest/gtest.h>

#include <fstream>

#include "support/temp_dir.h"

namespace stoker {
namespace {

using Names = std::vector<std::string>;

TEST(ExpandBracesTest, counts_lists_and_combines_like_a_shell) {
  EXPECT_EQ(*expand_braces("a.tar"), Names{"a.tar"});
  EXPECT_EQ(*expand_braces("a-{008..011}.tar"),
            (Names{"a-008.tar", "a-009.tar", "a-010.tar", "a-011.tar"}));
  EXPECT_EQ(*expand_braces("{9..11}"), (Names{"9", "10", "11"}));
  EXPECT_EQ(*expand_braces("{x,y}/{1..2}"), (Names{"x/1", "x/2", "y/1", "y/2"}));
  EXPECT_EQ(*expand_braces("{,b}"), (Names{"", "b"}));
  EXPECT_EQ(*expand_braces("a{}b{x}"), Names{"a{}b{x}"});
  EXPECT_EQ(*expand_braces(""), Names{""});
}

TEST(ExpandBracesTest, nonsense_is_refused_with_the_pattern) {
  for (const char* pattern :
       {"a-{0..", "{5..3}", "{a..b}", "{1..x}", "{..3}", "{-1..3}", "{0..99999999999}", "{a,{b,c}}",
        "{0..9999}{0..9999}{0..9999}{0..9999}"}) {
    const auto names = expand_braces(pattern);
    ASSERT_FALSE(names.ok()) << pattern;
    EXPECT_EQ(names.status().code(), Code::invalid_argument);
    EXPECT_NE(names.status().message().find(pattern), std::string::npos);
  }
}

TEST(ShardStemTest, compression_changes_no_key) {
  EXPECT_EQ(shard_stem("shard.00000.mds"), "shard.00000");
  EXPECT_EQ(shard_stem("shard.00000.mds.zstd"), "shard.00000");
  EXPECT_EQ(shard_stem("deep/shard.00000.mds.gz"), "deep/shard.00000");
  EXPECT_EQ(shard_stem("deep/shard.00000.mds"), "deep/shard.00000");
  EXPECT_EQ(numbered_key("shard.00000.mds.zstd", 17), numbered_key("shard.00000.mds", 17));
  EXPECT_EQ(numbered_key("a/train-0001.tfrecord", 3), "train-0001/3");
  EXPECT_EQ(shard_stem("x.mds.mds"), "x.mds");
  EXPECT_EQ(shard_stem("plain"), "plain");
}

class FindShardsTest : public ::testing::Test {
 protected:
  FindShardsTest() {
    for (const char* name : {"b.tar", "a.tar", "B.tar", "odd[1].tar"})
      std::ofstream(dir_.file(name)) << "x";
  }
  testing::TempDir dir_;
};

TEST_F(FindShardsTest, globs_come_in_bytewise_order) {
  EXPECT_EQ(*find_shards(dir_.file("?.tar")),
            (Names{dir_.file("B.tar"), dir_.file("a.tar"), dir_.file("b.tar")}));
  EXPECT_EQ(*find_shards(dir_.file("{b,a}.tar")), (Names{dir_.file("b.tar"), dir_.file("a.tar")}));
}

TEST_F(FindShardsTest, a_real_name_with_glob_characters_is_that_file) {
  EXPECT_EQ(*find_shards(dir_.file("odd[1].tar")), Names{dir_.file("odd[1].tar")});
}

TEST_F(FindShardsTest, a_real_name_with_braces_is_that_file_and_not_what_they_stand_for) {
  for (const char* name : {"{a,b}.tar", "{1..2}", "open{"}) {
    std::ofstream(dir_.file(name)) << "x";
    EXPECT_EQ(*find_shards(dir_.file(name)), Names{dir_.file(name)});
  }
}

TEST_F(FindShardsTest, a_missing_shard_is_an_error_and_not_a_smaller_dataset) {
  EXPECT_EQ(find_shards(dir_.file("{a,c}.tar")).status().code(), Code::not_found);
  EXPECT_EQ(find_shards(dir_.file("none*.tar")).status().code(), Code::not_found);
}

}  // namespace
}  // namespace stoker
