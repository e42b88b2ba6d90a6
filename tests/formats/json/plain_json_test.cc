#include "formats/json/plain_json.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace stoker {
namespace {

TEST(PlainJsonTest, what_it_reads_is_what_the_library_reads) {
  for (const std::string text :
       {"{}",
        "[]",
        " [ ] ",
        "\t{ \"a\" :\r\n1 }\n",
        "0",
        "-0",
        "-0.0",
        "7",
        "-7",
        "1.5",
        "1e5",
        "1E+2",
        "2.5e-3",
        "0.1",
        "1e-300",
        "18446744073709551615",
        "-9223372036854775808",
        "123456789.123456789",
        "true",
        "false",
        "null",
        "\"\"",
        "\"a b\"",
        "\"\xC3\xA9\x7F\"",
        R"("\"\\\/\b\f\n\r\t")",
        R"("a\nb\tc")",
        R"("\u0041\u0000\u00e9\u07FF\u0800\uffff\ud800\udc00\uDBFF\uDFFF")",
        R"([1, [2, [3, {"x": [4, {"y": null}]}]], "z", true])",
        R"({"b": 1, "a": {"d": [], "c": {}}, "": 0, "\n": "\\"})"}) {
    const auto read = try_parse_json(text, {});
    ASSERT_TRUE(read.has_value()) << text;
    EXPECT_EQ(read->document.dump({.is_sorted = true}), nlohmann::json::parse(text).dump()) << text;
  }
}

TEST(PlainJsonTest, integers_have_the_type_that_the_library_gives_them) {
  EXPECT_TRUE(try_parse_json("0", {})->document.is_number_unsigned());
  EXPECT_FALSE(try_parse_json("-0", {})->document.is_number_unsigned());
  EXPECT_TRUE(try_parse_json("-0", {})->document.is_number_integer());
  EXPECT_TRUE(try_parse_json("1e2", {})->document.is_number_float());
}

TEST(PlainJsonTest, not_a_number_and_infinities_are_read_if_they_are_accepted) {
  const StrictJsonLimits limits = {.accepts_nonfinite = true};
  const auto read = try_parse_json(
      R"([NaN, Infinity, -Infinity, -1, "NaN", "\u00e9", 18446744073709551616])", limits);
  ASSERT_TRUE(read.has_value());
  EXPECT_TRUE(std::isnan(read->document[0].get_double()));
  EXPECT_EQ(read->document[1].get_double(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(read->document[2].get_double(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(read->document[3].get_int64(), -1);
  EXPECT_EQ(read->document[4].get_string(), "NaN");
  EXPECT_EQ(read->document[6].get_double(), 0x1p64);
  for (const char* const text : {"nan", "Na", "NaNs", "-NaN", "Inf", "--Infinity", "+Infinity"})
    EXPECT_FALSE(try_parse_json(text, limits).has_value()) << text;
}

TEST(PlainJsonTest, members_keep_their_order) {
  const std::string text = R"({"b":1,"a":2,"c":{"z":1,"y":2}})";
  EXPECT_EQ(try_parse_json(text, {})->document.dump(), text);
}

TEST(PlainJsonTest, members_of_the_document_have_their_texts) {
  const std::string text = R"( {"b" : [1, 2] ,"a":{"c": 1.50}, "\n": "x" } )";
  EXPECT_EQ(try_parse_json(text, {})->members, json_member_texts(text));
  EXPECT_TRUE(try_parse_json(R"([{"a": 1}])", {})->members.empty());
}

TEST(PlainJsonTest, whatever_is_wrong_or_rare_is_left_to_the_strict_parser) {
  for (const std::string text : {"",
                                 " ",
                                 "{",
                                 "[",
                                 "\"",
                                 "[1",
                                 "[1,",
                                 "[1,]",
                                 "[,1]",
                                 "{,}",
                                 "{\"a\"}",
                                 "{\"a\":}",
                                 "{\"a\":1,}",
                                 "{a:1}",
                                 "{1:1}",
                                 "{\"a\" 1}",
                                 "[1 2]",
                                 "1 2",
                                 "{} {}",
                                 "]",
                                 "01",
                                 "+1",
                                 "-",
                                 ".5",
                                 "1.",
                                 "1e",
                                 "1e+",
                                 "--1",
                                 "tru",
                                 "nul",
                                 "truex",
                                 "NaN",
                                 "Infinity",
                                 "\"\x01\"",
                                 "\"\n\"",
                                 "\"\\x\"",
                                 "\"\\",
                                 "\"\xFF\"",
                                 "\"\xC3\"",
                                 "\"\xED\xA0\x80\"",
                                 "[1 /* */]",
                                 R"({"a": 1, "b": 2, "a": 3})",
                                 "-Infinity",
                                 R"("\u00")",
                                 R"("\u00g1")",
                                 R"("\u-001")",
                                 R"("\ud800")",
                                 R"("\ud800\u0041")",
                                 R"("\ud800x")",
                                 R"("\udc00")",
                                 "1e999",
                                 "1e-999",
                                 "18446744073709551616",
                                 "-9223372036854775809"})
    EXPECT_FALSE(try_parse_json(text, {}).has_value()) << text;
}

TEST(PlainJsonTest, elements_are_given_away_one_by_one) {
  std::string taken;
  std::string texts;
  const ElementTakers takers = {{"a", [&](const Json* element, std::string_view written) {
                                   const std::string text = element ? element->dump() : "same";
                                   taken += text + " ";
                                   texts += written;
                                   return text != "9";
                                 }}};
  const auto read = try_parse_json(R"({"b":{"a":[7]},"a":[1,{"x":[2]}],"c":[3]})", {}, takers);
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->document.dump(), R"({"b":{"a":[7]},"a":[],"c":[3]})");
  EXPECT_EQ(taken, R"(1 {"x":[2]} )");
  EXPECT_EQ(texts, R"(1{"x":[2]})");
  taken.clear();
  EXPECT_TRUE(try_parse_json(R"({"a":[[1],[1], [1] ,[12],7,7,[[1]],[[1]]]})", {}, takers));
  EXPECT_EQ(taken, "[1] same same [12] 7 7 [[1]] same ");
  EXPECT_EQ(try_parse_json(R"({"a":5})", {}, takers)->document.dump(), R"({"a":5})");
  for (const char* const declined :
       {R"({"a":[1,9,2]})", R"({"a":[1,]})", R"({"a":[1],"a":[]})", R"({"a":[1)"})
    EXPECT_FALSE(try_parse_json(declined, {}, takers).has_value()) << declined;
  EXPECT_FALSE(try_parse_json(R"({"a":[]})", {.depth_max = 1}, takers).has_value());
  EXPECT_FALSE(try_parse_json(R"({"a":[[]]})", {.depth_max = 2}, takers).has_value());
  EXPECT_FALSE(try_parse_json(R"({"a":[[1],[1]]})", {.value_count_max = 5}, takers).has_value());
  EXPECT_TRUE(try_parse_json(R"({"a":[[1],[1]]})", {.value_count_max = 6}, takers).has_value());
  EXPECT_TRUE(try_parse_json(R"({"a":[1]})", {.value_count_max = 3}, takers).has_value());
  EXPECT_FALSE(try_parse_json(R"({"a":[1]})", {.value_count_max = 2}, takers).has_value());
}

TEST(PlainJsonTest, limits_are_those_of_the_strict_parser) {
  EXPECT_TRUE(try_parse_json("[[]]", {.depth_max = 2}).has_value());
  EXPECT_FALSE(try_parse_json("[[]]", {.depth_max = 1}).has_value());
  EXPECT_FALSE(try_parse_json("{}", {.depth_max = 0}).has_value());
  EXPECT_TRUE(try_parse_json("[1, 2]", {.value_count_max = 3}).has_value());
  EXPECT_FALSE(try_parse_json("[1, 2]", {.value_count_max = 2}).has_value());
  EXPECT_FALSE(try_parse_json(std::string(1'000'000, '['), {}).has_value());
}

}  // namespace
}  // namespace stoker
