#include "dataset/shards/shard_glob.h"

#include <glob.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "store/local_store.h"
#include "store/toys/memory_store.h"
#include "support/temp_dir.h"

namespace stoker::testing {
namespace {

using Names = std::vector<std::string>;

/// What glob(3) finds, less "." and "..", which are no names of a dataset's.
Names system_glob(const std::string& pattern) {
  glob_t found{};
  Names names;
  if (::glob(pattern.c_str(), GLOB_NOSORT | GLOB_ERR, nullptr, &found) == 0)
    names.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  ::globfree(&found);
  std::erase_if(
      names, [](const std::string& name) { return name.ends_with("/.") || name.ends_with("/.."); });
  std::ranges::sort(names);
  return names;
}

class ShardGlobTest : public ::testing::Test {
 protected:
  ShardGlobTest() {
    for (const char* name :
         {"a.tar", "b.tar", "B.tar", ".hidden.tar", "odd[1].tar", "back\\slash.tar", "star*.tar",
          "x-0/a.tar", "x-0/.b.tar", "x-1/a.tar", "x-1/c.tar", "x-10/deep/a.tar", ".h/a.tar",
          "y/x-0/a.tar", "\xc3\xa4.tar", "{a}.tar"}) {
      std::filesystem::create_directories(std::filesystem::path(dir_.file(name)).parent_path());
      std::ofstream(dir_.file(name)) << "x";
    }
    copy_files(dir_.path(), memory_, dir_.path());
  }

  const TempDir dir_;
  MemoryStore memory_;
};

TEST_F(ShardGlobTest, a_pattern_matches_what_the_system_matches_in_every_store) {
  for (const char* pattern : {"*.tar",
                              "?.tar",
                              "[ab].tar",
                              "[!a].tar",
                              "[a-z]*.tar",
                              ".*",
                              ".h*",
                              "x-*/a.tar",
                              "*/*.tar",
                              "*/.b*",
                              "x-?/*",
                              "x-*/",
                              "*",
                              "x-*/*/a.tar",
                              "**/a.tar",
                              "odd\\[1\\].tar",
                              "odd[[]1].tar",
                              "star\\*.tar",
                              "back\\\\*",
                              "*//a.tar",
                              "x-*/../a.tar",
                              "x-[0-9]/./a.tar",
                              "y/*/a.tar",
                              "none*",
                              "*/none",
                              "a.tar/*",
                              "[",
                              "[a",
                              "*[",
                              "{a}*"}) {
    const Names expected = system_glob(dir_.file(pattern));
    const std::string name = dir_.file(pattern);
    for (ObjectStore* store : {local_store().get(), static_cast<ObjectStore*>(&memory_)}) {
      if (store == &memory_ && std::string_view(pattern).find("/.") != std::string_view::npos &&
          std::string_view(pattern).find("/.b") == std::string_view::npos)
        continue;  // "." and ".." are names of directories only
      const auto found = internal::match_glob(*store, name);
      EXPECT_EQ(found.ok() ? *found : Names(), expected) << pattern;
      if (!found.ok()) {
        EXPECT_EQ(found.status().code(), Code::not_found) << pattern;
      }
    }
  }
}

TEST_F(ShardGlobTest, a_pattern_without_a_directory_is_of_this_one) {
  MemoryStore store;
  for (const char* key : {"a.tar", "b.tar", "d/c.tar"}) {
    auto upload = store.upload(key);
    ASSERT_TRUE(std::move(**upload).commit().ok());
  }
  EXPECT_EQ(*internal::match_glob(store, "*.tar"), (Names{"a.tar", "b.tar"}));
  EXPECT_EQ(*internal::match_glob(store, "*/*"), (Names{"d/c.tar"}));
}

TEST_F(ShardGlobTest, a_link_that_leads_nowhere_is_matched_so_that_it_fails_later) {
  std::filesystem::create_symlink("nowhere", dir_.file("x-0/lost.tar"));
  for (const char* pattern : {"x-0/*.tar", "x-*/lost.tar"}) {
    const auto found = internal::match_glob(*local_store(), dir_.file(pattern));
    ASSERT_TRUE(found.ok());
    EXPECT_EQ(*found, system_glob(dir_.file(pattern)));
    EXPECT_TRUE(std::ranges::count(*found, dir_.file("x-0/lost.tar")));
  }
}

TEST_F(ShardGlobTest, a_directory_that_is_not_there_is_named) {
  const Status status = internal::match_glob(*local_store(), dir_.file("absent/*.tar")).status();
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_EQ(status.message(), "glob " + dir_.file("absent/*.tar") + ": No such file or directory");
}

}  // namespace
}  // namespace stoker::testing
