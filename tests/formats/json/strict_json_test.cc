#include "formats/json/strict_json.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "formats/json/exact_json.h"

namespace stoker {
namespace {

struct HostileJson {
  const char* reason;
  std::string text;
  const char* message;  ///< A part of it.
};

std::string repeated(const char* piece, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) text += piece;
  return text;
}

TEST(StrictJsonTest, hostile_texts_are_refused_with_the_byte_and_the_reason) {
  const HostileJson cases[] = {
      {"empty", "", "byte 0"},
      {"only spaces", "  ", "not valid JSON"},
      {"unfinished", "{\"a\": [1, 2", "not valid JSON"},
      {"two values", "1 2", "byte 2: not valid JSON"},
      {"zero byte, then more", std::string("{}\0]", 4), "byte 2: not valid JSON"},
      {"zero byte at the end", std::string("{}\0", 3), "byte 2: not valid JSON"},
      {"trailing comma", "[1,]", "byte 3: not valid JSON"},
      {"comment", "[1 /* one */]", "not valid JSON"},
      {"byte-order mark", "\xEF\xBB\xBF{}", "byte 0: a byte-order mark"},
      {"not UTF-8", "\"\xFF\"", "byte 1: not UTF-8"},
      {"half a surrogate pair", R"("\ud800")", "half of a surrogate pair"},
      {"NaN", "NaN", "not valid JSON"},
      {"infinite number", "1e999", "the number 1e999 is too large for a double"},
      {"key twice", R"({"a": 1, "b": 2, "a": 3})", "byte 19: duplicate key \"a\""},
      {"key twice by escape", R"({"a": 1, "\u0061": 3})", "duplicate key"},
      {"key twice inside", R"([{"x": {"k": 1, "k": 1}}])", "duplicate key"},
      {"65 deep", repeated("[", 65) + repeated("]", 65), "byte 64: nested more than 64 deep"},
      {"a million deep", repeated("[", 1'000'000), "nested more than 64 deep"},
      {"deep objects", repeated("{\"a\":", 100), "nested more than 64 deep"},
  };
  for (const HostileJson& hostile : cases) {
    const auto parsed = parse_strict_json(hostile.text, "thing");
    ASSERT_FALSE(parsed.ok()) << hostile.reason;
    EXPECT_EQ(parsed.status().code(), Code::corrupt) << hostile.reason;
    const std::string message(parsed.status().message());
    EXPECT_TRUE(message.starts_with("thing: ")) << message;
    EXPECT_NE(message.find(hostile.message), std::string::npos) << hostile.reason << message;
  }
}

TEST(StrictJsonTest, integers_beyond_64_bits_are_floats_unless_they_are_to_be_exact) {
  for (const std::string text : {"18446744073709551616", "[{\"a\": -9223372036854775809}]"}) {
    EXPECT_TRUE(parse_strict_json(text, "thing").ok()) << text;
    const auto parsed = parse_exact_json(text, "thing");
    ASSERT_FALSE(parsed.ok()) << text;
    EXPECT_NE(parsed.status().message().find("does not fit 64 bits"), std::string::npos);
  }
  for (const std::string text : {"18446744073709551615", "-9223372036854775808", "1e30", "1.5"})
    EXPECT_TRUE(parse_exact_json(text, "thing").ok()) << text;
}

TEST(StrictJsonTest, what_is_inside_the_limits_reads_as_any_parser_reads_it) {
  const std::string deep = repeated("[", 64) + repeated("]", 64);
  for (const std::string& text :
       {deep, std::string(R"({"a": [1, -2, 1.5, true, null, "\u00e9\ud83d\ude00"], "": {}})"),
        std::string("3"), std::string(" [ ] ")}) {
    const auto parsed = parse_strict_json(text, "thing");
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->dump({.is_sorted = true}), nlohmann::json::parse(text).dump());
  }
}

TEST(StrictJsonTest, sizes_and_numbers_of_values_are_bounded) {
  EXPECT_EQ(parse_strict_json("[1, 2]", "x", {.text_bytes_max = 5}).status().message(),
            "x: 6 bytes of JSON, at most 5 are read");
  EXPECT_TRUE(parse_strict_json("[1, 2]", "x", {.value_count_max = 3}).ok());
  EXPECT_EQ(parse_strict_json("[1, 2]", "x", {.value_count_max = 2}).status().message(),
            "x: byte 5: more than 2 values");
}

TEST(StrictJsonTest, a_view_names_the_path_to_what_is_wrong) {
  const auto document =
      *parse_strict_json(R"({"a": [{"n": -1, "f": 1.5, "t": "x", "z": null, "big": 300}]})", "d");
  const JsonView root(document, "d: ");
  const JsonView inner = root.at("a")->element(0);
  EXPECT_EQ(inner.at("n")->u64().status().message(), "d: a[0].n: negative");
  EXPECT_EQ(inner.at("f")->u64().status().message(), "d: a[0].f: not an integer");
  EXPECT_EQ(inner.at("big")->u64(255).status().message(), "d: a[0].big: 300 is more than 255");
  EXPECT_EQ(*inner.at("big")->u64(300), 300U);
  EXPECT_EQ(inner.at("missing").status().message(), "d: a[0].missing: missing");
  EXPECT_TRUE(inner.at_or_null("missing")->is_null());
  EXPECT_TRUE(inner.at("z")->is_null());
  EXPECT_EQ(inner.at("t")->at("x").status().message(), "d: a[0].t: not an object");
  EXPECT_EQ(inner.array_size().status().message(), "d: a[0]: not an array");
  EXPECT_EQ(inner.at("f")->text().status().message(), "d: a[0].f: not a string");
  EXPECT_EQ(inner.at_or_null("missing")->text().status().message(),
            "d: a[0].missing: not a string");
  EXPECT_EQ(inner.path(), "d: a[0]");
  EXPECT_EQ(JsonView(inner.value(), "here").at("t")->path(), "here.t");
}

TEST(StrictJsonTest, messages_quote_only_printable_ascii_of_bounded_length) {
  EXPECT_EQ(quote_for_message("a\"\\\n\xC3"), R"("a\x22\x5c\x0a\xc3")");
  EXPECT_EQ(quote_for_message(std::string(65, 'x')), "\"" + std::string(64, 'x') + "\"...");
}

}  // namespace
}  // namespace stoker
