#include "formats/webdataset/webdataset_names.h"

#include <gtest/gtest.h>

#include <regex>

namespace stoker {
namespace {

std::string split(std::string_view name) {
  const std::optional<MemberName> split = split_member_name(name);
  return split ? std::string(split->key) + "|" + std::string(split->extension) : "none";
}

TEST(WebDatasetNamesTest, the_key_ends_at_the_first_dot_of_the_base_name) {
  EXPECT_EQ(split("a.txt"), "a|txt");
  EXPECT_EQ(split("a.seg.png"), "a|seg.png");
  EXPECT_EQ(split("d/e/a.txt"), "d/e/a|txt");
  EXPECT_EQ(split("v1.2/a.txt"), "v1.2/a|txt");
  EXPECT_EQ(split("./a.txt"), "./a|txt");
  EXPECT_EQ(split("a."), "a|");
  EXPECT_EQ(split("a..b"), "a|.b");
}

TEST(WebDatasetNamesTest, names_without_key_or_extension_are_ignored) {
  EXPECT_EQ(split("a"), "none");
  EXPECT_EQ(split(".hidden"), "none");
  EXPECT_EQ(split("v1.2/a"), "none");
  EXPECT_EQ(split("v1.2/.hidden"), "none");
  EXPECT_EQ(split(""), "none");
  EXPECT_EQ(split("."), "none");
}

TEST(WebDatasetNamesTest, a_hidden_file_has_its_directory_as_key_as_the_expression_says) {
  EXPECT_EQ(split("d/.hidden"), "d/|hidden");
  EXPECT_EQ(split("v1.2/d/.hidden"), "v1.2/d/|hidden");
}

TEST(WebDatasetNamesTest, every_short_name_is_split_as_the_expression_splits_it) {
  // ECMAScript's expressions agree with Python's here, but for `.`, which leaves out '\r' too.
  const std::regex expression(R"(^((?:[^\n]*/|)[^.]+)[.]([^/]*)$)");
  constexpr std::string_view kLetters = "a./\n";
  std::size_t matched = 0;
  for (std::size_t size = 0; size <= 6; ++size) {
    std::size_t count = 1;
    for (std::size_t i = 0; i < size; ++i) count *= kLetters.size();
    for (std::size_t number = 0; number < count; ++number) {
      std::string name;
      for (std::size_t i = 0, rest = number; i < size; ++i, rest /= kLetters.size())
        name += kLetters[rest % kLetters.size()];
      std::smatch match;
      const bool expected = std::regex_match(name, match, expression);
      matched += expected;
      ASSERT_EQ(split(name), expected ? match[1].str() + "|" + match[2].str() : "none") << name;
    }
  }
  EXPECT_GT(matched, 500U);
}

TEST(WebDatasetNamesTest, metadata_is_what_begins_and_ends_with_two_underscores) {
  for (const char* name : {"____", "__a__", "__a.b__", "__a__/b.txt", "__a__\n"})
    EXPECT_TRUE(is_metadata_name(name)) << name;
  for (const char* name :
       {"", "_a_", "__a", "a__", "__a__b", "__a_/b__", "d/__a__", "__a__b/c.txt"})
    EXPECT_FALSE(is_metadata_name(name)) << name;
}

TEST(WebDatasetNamesTest, the_last_part_of_an_extension_tells_the_type) {
  EXPECT_EQ(type_of_extension("txt"), FieldType::text);
  EXPECT_EQ(type_of_extension("a.json"), FieldType::json);
  EXPECT_EQ(type_of_extension("cls"), FieldType::text);
  EXPECT_EQ(type_of_extension("json.gz"), FieldType::bytes);
  EXPECT_EQ(type_of_extension("jpg"), FieldType::bytes);
  EXPECT_EQ(type_of_extension(""), FieldType::bytes);
}

TEST(WebDatasetNamesTest, a_refused_key_says_which_rule_it_breaks) {
  const auto message = [](std::string_view key) { return std::string(check_key(key).message()); };
  EXPECT_NE(message("").find("needs a key"), std::string::npos);
  EXPECT_NE(message("/a").find("begins with a slash"), std::string::npos);
  EXPECT_NE(message("a/").find("ends in a slash"), std::string::npos);
  EXPECT_NE(message("a/../b").find("\"..\""), std::string::npos);
  EXPECT_NE(message("a.b").find("dot in its last part"), std::string::npos);
  EXPECT_EQ(message("v1.2/a"), "");
}

}  // namespace
}  // namespace stoker
