#include "base/hex.h"

#include <gtest/gtest.h>

#include <array>

namespace stoker {
namespace {

TEST(HexTest, every_byte_reads_back_as_itself) {
  for (int value = 0; value < 256; ++value) {
    const std::array bytes = {static_cast<std::byte>(value), std::byte{0x5a}};
    std::array<std::byte, 2> read{};
    ASSERT_TRUE(parse_hex(format_hex(bytes), read).ok());
    EXPECT_EQ(read, bytes);
  }
}

TEST(HexTest, text_is_lower_case_and_first_byte_first) {
  EXPECT_EQ(format_hex(std::array{std::byte{0x01}, std::byte{0xaf}}), "01af");
  EXPECT_EQ(format_hex({}), "");
}

TEST(HexTest, anything_but_lower_case_digits_of_the_right_number_is_refused) {
  std::array<std::byte, 2> out{};
  for (const char* text : {"", "01a", "01af0", "01AF", "0x1f", "01g0", " 1af", "01a ", "+1af"}) {
    EXPECT_EQ(parse_hex(text, out).code(), Code::invalid_argument) << text;
  }
}

}  // namespace
}  // namespace stoker
