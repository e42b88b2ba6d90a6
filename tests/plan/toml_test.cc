#include "plan/toml.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker::plan {
namespace {

std::string toml_error(std::string_view text) {
  const Result<std::vector<TomlTable>> tables = parse_toml(text, "f");
  return tables.ok() ? "" : std::string(tables.status().message());
}

TEST(TomlTest, reads_tables_arrays_of_tables_strings_and_numbers) {
  const auto tables = parse_toml(
      "# first\r\na = 1_000 # one\n\n[ t-1 ]\nb=\"x # \\\"y\\\\\"\n[[e]]\nc = -1e3\n", "f");
  ASSERT_FALSE(tables.ok());  // a sign
  const auto good = parse_toml(
      "# first\r\na = 1_000 # one\n\n[ t-1 ]\nb=\"x # \\\"y\\\\\"\n[[e]]\nc = 7e-3\n[[e]]\n", "f");
  ASSERT_TRUE(good.ok()) << good.status().message();
  ASSERT_EQ(good->size(), 4u);
  EXPECT_EQ((*good)[0].find("a")->value, "1000");
  EXPECT_EQ((*good)[0].find("a")->line, 2u);
  EXPECT_EQ((*good)[1].name, "t-1");
  EXPECT_EQ((*good)[1].find("b")->value, "x # \"y\\");
  EXPECT_TRUE((*good)[1].find("b")->is_string);
  EXPECT_TRUE((*good)[2].is_element);
  EXPECT_EQ((*good)[2].find("c")->value, "7e-3");
  EXPECT_EQ((*good)[0].find("z"), nullptr);
}

TEST(TomlTest, an_error_names_the_line) {
  EXPECT_EQ(toml_error("a = 1\nb 2\n"),
            "f, line 2: expected key = value, with a key of letters, digits, \"_\" and \"-\"");
  EXPECT_EQ(toml_error("a = 1\n\na = 2"), "f, line 3: duplicate key a");
  EXPECT_EQ(toml_error("[t]\n[t]\n"), "f, line 2: [t] again");
  EXPECT_EQ(toml_error("[[t]]\n[t]\n"), "f, line 2: [t] again");
  EXPECT_EQ(toml_error("a = \"x"), "f, line 1: the string has no closing quote");
  EXPECT_EQ(toml_error("a = 1 2"),
            "f, line 1: text after the value; one \"key = value\" or [table] for each line");
}

TEST(TomlTest, refuses_what_it_does_not_support_and_what_is_hostile) {
  for (const char* text : {"a.b = 1",    "\"a\" = 1",   "a = [1]",
                           "a = {b=1}",  "a = 'x'",     "a = \"\"\"x\"\"\"",
                           "[a.b]",      "[",           "[[a]",
                           "[]",         "a =",         "a = nan",
                           "a = inf",    "a = -1",      "a = 0x10",
                           "a = 1__0",   "a = 1_",      "a = \"\\u0041\"",
                           "a = \"\t\"", "= 1",         "a = 2026-11-19T00:00:00",
                           "\x01",       "a = \"\x7f\""})
    EXPECT_NE(toml_error(text), "") << text;
  EXPECT_EQ(toml_error("a = \"\xff\""), "f: not UTF-8");
  EXPECT_EQ(toml_error(std::string(kTomlBytesMax + 1, '#')), "f: larger than 1 MiB");
  EXPECT_EQ(toml_error(std::string_view("a = 1\0", 6)), "f, line 1: a control character");
  EXPECT_NE(toml_error(std::string(100'000, '[')), "");
}

}  // namespace
}  // namespace stoker::plan
