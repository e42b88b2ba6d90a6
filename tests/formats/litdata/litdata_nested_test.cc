#include "formats/litdata/litdata_nested.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

using namespace std::string_literals;

std::string u32(std::uint32_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::string text(const std::string& value) {
  return u32(static_cast<std::uint32_t>(value.size())) + value;
}
std::string f64(double number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
std::string i64(std::int64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}

Result<std::string> json_of(const std::string& value) {
  SampleView storage;
  FieldView field;
  STOKER_TRY(decode_litdata_json(std::as_bytes(std::span(value)), storage, field));
  return std::string(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
}

TEST(LitdataNestedTest, every_tag_becomes_the_json_it_stands_for) {
  const std::pair<std::string, std::string> cases[] = {
      {"\x00"s + text("[1, null]"), "[1, null]"},
      {"\x01"s + u32(2) + text("a\"") + text("\xE2\x98\x83"), "[\"a\\\"\",\"\xE2\x98\x83\"]"},
      {"\x01"s + u32(0), "[]"},
      {"\x02"s + u32(2) + i64(-1) + i64(INT64_MIN), "[-1,-9223372036854775808]"},
      {"\x03"s + u32(3) + f64(0.1) + f64(2) + f64(1e300), "[0.1,2.0,1e+300]"},
      {"\x04"s + u32(2) + "\x01\x00"s, "[true,false]"},
      {"\x05"s + u32(2) + text("k") + "\x0b" + text("l") + "\x0a\x01", "{\"k\":null,\"l\":true}"},
      {"\x06"s + u32(2) + u32(1) + text("k") + "\x12" + i64(7) + "\x10",
       "[{\"k\":7},{\"k\":null}]"},
      {"\x07"s + text("x"), "\"x\""},
      {"\x08"s + i64(5), "5"},
      {"\x09"s + f64(-0.0), "-0.0"},
      {"\x0a\x00"s, "false"},
      {"\x0b"s, "null"},
      {"[1, 2]", "[1, 2]"},
      {"{\"legacy\": 1}", "{\"legacy\": 1}"},
  };
  for (const auto& [value, json] : cases) {
    const auto translated = json_of(value);
    ASSERT_TRUE(translated.ok()) << json << translated.status().message();
    EXPECT_EQ(*translated, json);
  }
}

TEST(LitdataNestedTest, hostile_values_are_corrupt_each_with_its_own_message) {
  std::string deep;
  for (int i = 0; i < 100; ++i) deep += "\x05"s + u32(1) + text("");
  const std::string bomb =
      "\x06"s + u32(50'000) + u32(1) + text(std::string(50'000, 'k')) + std::string(50'000, '\x10');
  const std::pair<std::string, std::string> cases[] = {
      {"", "the nested value is empty"},
      {"\x0c", "tag 12 is unknown"},
      {"\x20", "tag 32 is unknown"},
      {"\x02"s + u32(0xFFFFFFFF), "ends inside a number"},
      {"\x01"s + u32(1) + u32(0xFFFFFFFF), "a text is longer than the value"},
      {"\x07"s + text("\xff"), "a text is not UTF-8"},
      {"\x0b\x0b", "bytes are left after the value"},
      {"\x06"s + u32(0xFFFFFFFF) + u32(0), "records without keys"},
      {"\x06"s + u32(1) + u32(1) + text("k") + "\x15", "tag 21 is unknown in a record"},
      {deep, "nested more than 64 deep"},
      {bomb, "bytes of text"},
  };
  for (const auto& [value, message] : cases) {
    const auto translated = json_of(value);
    EXPECT_EQ(translated.status().code(), Code::corrupt) << message;
    EXPECT_NE(translated.status().message().find(message), std::string_view::npos)
        << translated.status().message() << " lacks " << message;
  }
}

}  // namespace
}  // namespace stoker
