#include "plan/toml.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <string>
#include <utility>

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

TEST(TomlTest, an_error_of_a_value_names_the_key) {
  EXPECT_EQ(toml_error("gpus = -8"), "f, line 1: gpus: is negative");
  EXPECT_EQ(toml_error("gpus = nan"),
            "f, line 1: gpus: expected a number, or a string in double quotes, like \"130KB\"");
}

/// The least CPU time of three, in the unit of std::clock(), for `count` lines.
double cpu_time_of(std::string_view begin, int count, std::string_view end) {
  std::string text;
  for (int i = 0; i < count; ++i)
    text.append(begin).append(std::to_string(100'000 + i)).append(end);
  double least = INFINITY;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    EXPECT_EQ(toml_error(text), "");
    least = std::min(least, static_cast<double>(std::clock() - start));
  }
  return least;
}

TEST(TomlTest, eight_times_the_lines_do_not_take_sixty_times_as_long) {
  for (const auto& [begin, end] : {std::pair("k", "=1\n"), std::pair("[t", "]\n")})
    EXPECT_LT(cpu_time_of(begin, 64'000, end), 30 * (cpu_time_of(begin, 8'000, end) + 1)) << begin;
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
