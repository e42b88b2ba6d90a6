#include "formats/utf8.h"

#include <gtest/gtest.h>

namespace stoker {
namespace {

TEST(Utf8Test, utf8_is_what_pythons_strict_decoder_takes) {
  for (const char* text :
       {"", "a", "\x7f", "\u00e9", "\u20ac", "\U0001f600", "\U0010ffff", "\ud7ff", "\ue000"})
    EXPECT_TRUE(is_utf8(text)) << text;
  for (const char* text : {"\x80",
                           "\xc0",
                           "\xc0\x80",
                           "\xc1\xbf",
                           "\xc3",
                           "\xc3(",
                           "a\xc3",
                           "\xe2\x82\x82\xff",
                           "\xe2\x82",
                           "\xe0\x80\x80",
                           "\xe0\x9f\xbf",
                           "\xed\xa0\x80",
                           "\xed\xbf\xbf",
                           "\xf0\x80\x80\x80",
                           "\xf0\x8f\xbf\xbf",
                           "\xf4\x90\x80\x80",
                           "\xf5\x80\x80\x80",
                           "\xf0\x9f\x98",
                           "\xff",
                           "\xfe"})
    EXPECT_FALSE(is_utf8(text)) << text;
}

TEST(Utf8Test, a_character_has_its_number_and_size) {
  const auto check = [](const char* text, char32_t code, std::size_t size_bytes) {
    const Utf8Character character = decode_utf8(text);
    EXPECT_TRUE(character.is_valid) << text;
    EXPECT_EQ(character.code, code) << text;
    EXPECT_EQ(character.size_bytes, size_bytes) << text;
  };
  check("ab", U'a', 1);
  check("\u00e9x", U'\u00e9', 2);
  check("\u20acx", U'\u20ac', 3);
  check("\U0010ffffx", U'\U0010ffff', 4);
}

TEST(Utf8Test, what_begins_like_a_character_is_replaced_at_once) {
  EXPECT_EQ(decode_utf8("\xf0\x9f\x98x").size_bytes, 3U);
  EXPECT_EQ(decode_utf8("\xe2\x82").size_bytes, 2U);
  EXPECT_EQ(decode_utf8("\xed\xa0\x80").size_bytes, 1U);
  EXPECT_EQ(decode_utf8("\xff\xff").size_bytes, 1U);
}

}  // namespace
}  // namespace stoker
