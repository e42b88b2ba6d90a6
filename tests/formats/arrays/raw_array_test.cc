#include "formats/arrays/raw_array.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/hex.h"

namespace stoker {
namespace {

constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok()) << hex;
  return bytes;
}

/// Three numbers, unchecked.
std::vector<std::byte> counted(std::uint64_t samples, std::uint64_t length,
                               std::uint64_t reserved) {
  const std::array<std::uint64_t, 3> numbers = {samples, length, reserved};
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

TEST(RawArrayTest, a_counted_header_is_three_little_endian_numbers) {
  const std::vector<std::byte> head = *make_counted_head(2, 0x0103);
  EXPECT_EQ(format_hex(head),
            "0200000000000000"
            "0301000000000000"
            "0000000000000000");
  const ArrayRows rows = *parse_counted_array(head, 24 + 2 * 0x0103 * 4);
  EXPECT_EQ(rows, (ArrayRows{Dtype::int32, 2, 0x0103, 24}));
}

TEST(RawArrayTest, a_shard001_header_is_a_magic_and_two_big_endian_numbers) {
  const std::vector<std::byte> head = *make_shard001_head(2, 0x0103);
  EXPECT_EQ(format_hex(head),
            "5348415244303031"
            "0000000000000002"
            "0000000000000103" +
                std::string(80, '0'));
  const ArrayRows rows = *parse_shard001_array(head, 64 + 2 * 0x0103 * 4);
  EXPECT_EQ(rows, (ArrayRows{Dtype::float32, 2, 0x0103, 64}));
}

TEST(RawArrayTest, the_stated_dtype_decides_the_size) {
  const std::vector<std::byte> head = *make_counted_head(2, 3, Dtype::uint16);
  EXPECT_TRUE(parse_counted_array(head, 24 + 12, Dtype::uint16).ok());
  const Status status = parse_counted_array(head, 24 + 12).status();
  EXPECT_EQ(status.message(),
            "offset 0: 2 samples of 3 int32 are 24 bytes, but 12 follow the header; if the "
            "elements are of another dtype, state it");
}

TEST(RawArrayTest, reserved_bytes_are_ignored) {
  EXPECT_TRUE(parse_counted_array(counted(1, 1, kMax), 28).ok());
  std::vector<std::byte> head = *make_shard001_head(1, 1);
  for (std::size_t i = 24; i < 64; ++i) head[i] = std::byte{0xFF};
  EXPECT_TRUE(parse_shard001_array(head, 68).ok());
}

TEST(RawArrayTest, counts_that_cannot_be_are_corrupt) {
  const struct {
    const char* reason;
    std::uint64_t samples;
    std::uint64_t width;
    std::uint64_t size_bytes;  // of the data
    const char* message;
  } kHostile[] = {
      {"the product overflows to 0", std::uint64_t{1} << 32, std::uint64_t{1} << 32, 0, "63 bits"},
      {"bytes overflow to 0", std::uint64_t{1} << 62, 1, 0, "63 bits"},
      {"2^63 bytes", std::uint64_t{1} << 61, 1, 0, "63 bits"},
      {"-1 samples", kMax, 1, 4, "63 bits"},
      {"-1 times -1", kMax, kMax, 4, "63 bits"},
      {"rows without elements", std::uint64_t{1} << 60, 0, 0, "rows without elements"},
      {"truncated", 2, 3, 23, "are 24 bytes, but 23 follow"},
      {"something follows", 2, 3, 25, "are 24 bytes, but 25 follow"},
      {"oversized", 1'000'000'000'000, 1, 4, "are 4000000000000 bytes, but 4 follow"},
  };
  for (const auto& hostile : kHostile) {
    std::vector<std::byte> big_endian = from_hex("5348415244303031" + std::string(112, '0'));
    for (int i = 0; i < 8; ++i) {
      big_endian[15 - static_cast<std::size_t>(i)] =
          static_cast<std::byte>(hostile.samples >> (8 * i) & 0xFF);
      big_endian[23 - static_cast<std::size_t>(i)] =
          static_cast<std::byte>(hostile.width >> (8 * i) & 0xFF);
    }
    for (const Status& status :
         {parse_counted_array(counted(hostile.samples, hostile.width, 0), 24 + hostile.size_bytes)
              .status(),
          parse_shard001_array(big_endian, 64 + hostile.size_bytes).status()}) {
      EXPECT_EQ(status.code(), Code::corrupt) << hostile.reason;
      EXPECT_NE(status.message().find(hostile.message), std::string::npos)
          << hostile.reason << ": " << status.message();
    }
    if (std::string_view(hostile.message).find("follow") == std::string_view::npos) {
      EXPECT_EQ(make_counted_head(hostile.samples, hostile.width).status().code(),
                Code::invalid_argument)
          << hostile.reason;
      EXPECT_EQ(make_shard001_head(hostile.samples, hostile.width).status().code(),
                Code::invalid_argument)
          << hostile.reason;
    }
  }
}

TEST(RawArrayTest, a_header_cut_off_is_corrupt_at_every_length) {
  const std::vector<std::byte> three = *make_counted_head(0, 5);
  const std::vector<std::byte> magic = *make_shard001_head(0, 5);
  for (std::size_t size = 0; size < 64; ++size) {
    if (size < 24) {
      EXPECT_EQ(parse_counted_array(std::span(three).first(size), size).status().code(),
                Code::corrupt);
    }
    EXPECT_EQ(parse_shard001_array(std::span(magic).first(size), size).status().code(),
              Code::corrupt);
  }
  EXPECT_TRUE(parse_counted_array(three, 24).ok());
  EXPECT_TRUE(parse_shard001_array(magic, 64).ok());
  EXPECT_EQ(parse_counted_array({}, 24).status().code(), Code::invalid_argument);
  EXPECT_EQ(parse_shard001_array({}, 64).status().code(), Code::invalid_argument);
}

TEST(RawArrayTest, another_magic_is_corrupt) {
  std::vector<std::byte> head = *make_shard001_head(1, 1);
  head[7] = std::byte{'2'};
  EXPECT_EQ(parse_shard001_array(head, 68).status().message(),
            "offset 0: the file does not begin with SHARD001");
}

TEST(RawArrayTest, a_raw_array_is_a_whole_number_of_elements) {
  EXPECT_EQ(*parse_raw_array(10, Dtype::uint16), (ArrayRows{Dtype::uint16, 1, 5, 0}));
  EXPECT_EQ(parse_raw_array(0, Dtype::int64)->samples, 0U);
  EXPECT_EQ(parse_raw_array(11, Dtype::int32).status().message(),
            "offset 8: the file's 11 bytes are not a multiple of the 4 of a int32");
}

}  // namespace
}  // namespace stoker
