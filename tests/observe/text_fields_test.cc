#include "observe/text_fields.h"

#include <gtest/gtest.h>

#include "base/shell_quote.h"

namespace stoker {
namespace {

using Views = std::vector<std::string_view>;

TEST(TextFieldsTest, a_count_is_all_of_the_text_or_nothing) {
  EXPECT_EQ(parse_count(" 42\n"), 42U);
  EXPECT_EQ(parse_count("0xEF53"), 0xef53U);
  EXPECT_EQ(parse_count("18446744073709551615"), UINT64_MAX);
  for (const char* bad : {"", " ", "-1", "+1", "4 2", "42kB", "0x", "18446744073709551616", "off"})
    EXPECT_EQ(parse_count(bad), std::nullopt) << bad;
}

TEST(TextFieldsTest, a_decimal_has_no_exponent) {
  EXPECT_EQ(parse_decimal("12.50"), 12.5);
  for (const char* bad : {"", "1e300", "nan%", "1,5"})
    EXPECT_EQ(parse_decimal(bad), std::nullopt) << bad;
}

TEST(TextFieldsTest, words_and_pieces_are_split) {
  EXPECT_EQ(split_words("  a\t b\n"), (Views{"a", "b"}));
  EXPECT_EQ(split_words(" \n"), Views{});
  EXPECT_EQ(split("a,,b", ','), (Views{"a", "", "b"}));
  EXPECT_EQ(split("", ','), Views{""});
}

TEST(TextFieldsTest, a_field_is_found_at_the_start_of_a_line_only) {
  EXPECT_EQ(find_field("xKey: 1\nKey: 2 \n", "Key:"), "2");
  EXPECT_EQ(find_field("xKey: 1", "Key:"), std::nullopt);
}

TEST(TextFieldsTest, the_choice_in_brackets_is_the_marked_one) {
  EXPECT_EQ(marked_choice("always [madvise] never"), "madvise");
  EXPECT_EQ(marked_choice("none\n"), "none");
  EXPECT_EQ(marked_choice("]["), "][");
}

TEST(TextFieldsTest, a_plain_name_leads_nowhere_else) {
  EXPECT_TRUE(is_plain_name("nvme0n1"));
  for (const std::string_view bad : {"", ".", "..", "a/b", "/"})
    EXPECT_FALSE(is_plain_name(bad)) << bad;
  EXPECT_FALSE(is_plain_name(std::string_view("a\0b", 3)));
}

TEST(TextFieldsTest, a_quoted_word_means_itself_to_a_shell) {
  EXPECT_EQ(shell_quote("/data/train-0.tar"), "/data/train-0.tar");
  EXPECT_EQ(shell_quote("/my data"), "'/my data'");
  EXPECT_EQ(shell_quote("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quote("$(rm)"), "'$(rm)'");
  EXPECT_EQ(shell_quote(""), "''");
}

}  // namespace
}  // namespace stoker
