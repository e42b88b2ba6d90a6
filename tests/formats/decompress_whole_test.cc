#include "formats/decompress_whole.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace stoker {
namespace {

using Bytes = std::vector<std::byte>;

/// "some text, some more text", and 8 MiB of zeros, by Python's brotli, bz2 and snappy
/// (of snappy only the beginning, which says so).
struct Golden {
  const char* name;
  Codec codec;
  const char* text;
  const char* bomb;
};
constexpr Golden kGolden[] = {
    {"brotli", Codec::brotli, "0b0c80736f6d6520746578742c20736f6d65206d6f7265207465787403",
     "cbffff3ff82700e2b14020f7fe6f"},
    {"bzip2", Codec::bzip2,
     "425a68393141592653597122812f0000091180400402029c402000212a6d0ca620c9884a8983431c"
     "36ef3e8a870bb9229c28483891409780",
     "425a6839314159265359a23d4b580040404080c00000040008200030cc0529a60100d8808078bb92"
     "29c2848511ea5ac0"},
    {"snappy", Codec::snappy, "1960736f6d6520746578742c20736f6d65206d6f72652074657874",
     "808080040000fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe"
     "0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe01"
     "00fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100"
     "fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe"
     "0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe0100fe01"
     "00fe0100"},
};

constexpr std::string_view kText = "some text, some more text";
constexpr DecompressLimits kRoomy = {.output_bytes_max = 100 << 20};

Bytes from_hex(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok());
  return bytes;
}

class DecompressWholeTest : public ::testing::TestWithParam<Golden> {
 protected:
  void SetUp() override {
    const Status status = decompress(GetParam().codec, text_, kRoomy).status();
    if (status.code() == Code::unsupported) GTEST_SKIP() << status.message();
  }

  Status fail(const Bytes& input, const DecompressLimits& limits = kRoomy) const {
    return decompress(GetParam().codec, input, limits).status();
  }

  const Bytes text_ = from_hex(GetParam().text);
};

TEST_P(DecompressWholeTest, gives_back_what_the_peer_compressed) {
  const auto bytes = std::as_bytes(std::span(kText));
  EXPECT_EQ(*decompress(GetParam().codec, text_, kRoomy), Bytes(bytes.begin(), bytes.end()));
}

TEST_P(DecompressWholeTest, every_truncation_and_what_follows_the_end_is_corrupt) {
  for (std::size_t size = 0; size < text_.size(); ++size) {
    EXPECT_EQ(fail(Bytes(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(size))).code(),
              Code::corrupt)
        << size;
  }
  Bytes more = text_;
  more.push_back(std::byte{'!'});
  EXPECT_EQ(fail(more).code(), Code::corrupt);
}

TEST_P(DecompressWholeTest, any_flipped_bit_is_read_without_harm) {
  for (std::size_t i = 0; i < text_.size() * 8; ++i) {
    Bytes damaged = text_;
    damaged[i / 8] ^= std::byte{1} << (i % 8);
    const auto result = decompress(GetParam().codec, damaged, kRoomy);
    if (!result.ok()) {
      EXPECT_EQ(result.status().code(), Code::corrupt) << result.status().message();
    }
  }
}

TEST_P(DecompressWholeTest, a_bomb_stops_at_the_cap) {
  EXPECT_EQ(fail(text_, {.output_bytes_max = kText.size() - 1}).message().substr(0, 16),
            "compressed byte ");
  EXPECT_TRUE(decompress(GetParam().codec, text_, {.output_bytes_max = kText.size()}).ok());
  const Status status = fail(from_hex(GetParam().bomb), {.output_bytes_max = 1'000'000});
  EXPECT_EQ(status.code(), Code::corrupt);
}

INSTANTIATE_TEST_SUITE_P(codecs, DecompressWholeTest, ::testing::ValuesIn(kGolden),
                         [](const auto& row) { return row.param.name; });

TEST(DecompressWholeCodecTest, bzip2_streams_one_after_the_other_are_one) {
  const Bytes one = from_hex(kGolden[1].text);
  Bytes two = one;
  two.insert(two.end(), one.begin(), one.end());
  const auto plain = decompress(Codec::bzip2, two, kRoomy);
  if (plain.status().code() == Code::unsupported) GTEST_SKIP() << plain.status().message();
  EXPECT_EQ(plain->size(), 2 * kText.size());
}

TEST(DecompressWholeCodecTest, a_size_that_snappy_cannot_reach_takes_no_memory) {
  const Bytes input = from_hex("ffffffff0f0061");  // 4 GiB from 7 bytes
  const Status status = decompress(Codec::snappy, input, {.output_bytes_max = UINT32_MAX}).status();
  if (status.code() == Code::unsupported) GTEST_SKIP() << status.message();
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("size is impossible"), std::string_view::npos);
}

TEST(DecompressWholeCodecTest, these_codecs_are_not_read_in_pieces) {
  EXPECT_EQ(Decompressor::make(Codec::brotli, kRoomy).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
