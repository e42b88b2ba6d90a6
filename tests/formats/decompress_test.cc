#include "formats/decompress.h"

#include <gtest/gtest.h>
#include <zlib.h>
#include <zstd.h>

#include <random>
#include <string>

#include "conformance/shard_format_support.h"
#include "formats/mds/mds_compression.h"

namespace stoker {
namespace {

using testing::MemorySink;
using Bytes = std::vector<std::byte>;

Bytes bytes_of(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

Bytes compressed(Codec codec, const Bytes& raw, int level = 1) {
  return *compress_mds({.codec = codec, .level = level}, raw);
}

Bytes joined(Bytes left, const Bytes& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

constexpr DecompressLimits kRoomy = {.output_bytes_max = 100 << 20};

class DecompressTest : public ::testing::TestWithParam<Codec> {};

TEST_P(DecompressTest, gives_back_what_was_compressed_however_it_is_fed) {
  std::mt19937_64 random(7);
  for (const std::size_t size : {0U, 1U, 1000U, 128U << 10, (128U << 10) + 1, 1U << 20}) {
    Bytes raw(size);
    for (std::byte& byte : raw) byte = static_cast<std::byte>(random() % 7);
    const Bytes input = compressed(GetParam(), raw);
    EXPECT_EQ(*decompress(GetParam(), input, kRoomy), raw) << size;
    for (const std::size_t piece : {std::size_t{1}, std::size_t{13}, std::size_t{4096}}) {
      if (input.size() / piece > 20'000) continue;
      auto decompressor = Decompressor::make(GetParam(), kRoomy);
      ASSERT_TRUE(decompressor.ok());
      MemorySink sink;
      for (std::size_t at = 0; at < input.size(); at += piece) {
        const auto fed = std::span(input).subspan(at, std::min(piece, input.size() - at));
        ASSERT_TRUE(decompressor->feed(fed, sink).ok());
      }
      ASSERT_TRUE(decompressor->finish().ok());
      EXPECT_EQ(sink.bytes, raw);
    }
  }
}

TEST_P(DecompressTest, streams_one_after_the_other_are_one) {
  const Bytes twice =
      joined(compressed(GetParam(), bytes_of("ab")), compressed(GetParam(), bytes_of("cd")));
  EXPECT_EQ(*decompress(GetParam(), twice, kRoomy), bytes_of("abcd"));
}

TEST_P(DecompressTest, every_truncation_is_corrupt) {
  const Bytes input = compressed(GetParam(), bytes_of("some text, some more text"));
  for (std::size_t size = 0; size < input.size(); ++size) {
    const auto result = decompress(GetParam(), std::span(input).first(size), kRoomy);
    EXPECT_EQ(result.status().code(), Code::corrupt) << size;
  }
}

TEST_P(DecompressTest, any_flipped_bit_is_read_without_harm) {
  const Bytes input = compressed(GetParam(), bytes_of("some text, some more text"));
  for (std::size_t i = 0; i < input.size() * 8; ++i) {
    Bytes damaged = input;
    damaged[i / 8] ^= std::byte{1} << (i % 8);
    const auto result = decompress(GetParam(), damaged, kRoomy);
    if (!result.ok()) {
      EXPECT_FALSE(result.status().message().empty());
    }
  }
}

TEST_P(DecompressTest, what_follows_the_end_is_corrupt) {
  const Bytes input = joined(compressed(GetParam(), bytes_of("text")), bytes_of("garbage"));
  EXPECT_EQ(decompress(GetParam(), input, kRoomy).status().code(), Code::corrupt);
}

TEST_P(DecompressTest, a_bomb_stops_at_the_cap_without_a_byte_beyond_it) {
  const Bytes bomb = compressed(GetParam(), Bytes(64 << 20), 9);
  ASSERT_LT(bomb.size(), 100'000U);
  auto decompressor = Decompressor::make(GetParam(), {.output_bytes_max = 1'000'000});
  MemorySink sink;
  const Status status = decompressor->feed(bomb, sink);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_NE(status.message().find("more than 1000000 bytes"), std::string_view::npos);
  EXPECT_LE(sink.bytes.size(), 1'000'000U);
  EXPECT_EQ(decompressor->finish().code(), Code::corrupt) << "a failure is kept";
  EXPECT_EQ(decompressor->feed({}, sink).code(), Code::corrupt);
}

TEST_P(DecompressTest, a_bomb_stops_at_the_ratio) {
  const Bytes bomb = compressed(GetParam(), Bytes(64 << 20), 9);
  const auto result =
      decompress(GetParam(), bomb, {.output_bytes_max = UINT64_MAX, .ratio_max = 100});
  EXPECT_NE(result.status().message().find("more than 100 times"), std::string_view::npos);
  // Below ratio_free_bytes nobody asks.
  const Bytes small = compressed(GetParam(), Bytes(1 << 20), 9);
  EXPECT_TRUE(decompress(GetParam(), small, {.output_bytes_max = 1 << 20, .ratio_max = 2}).ok());
}

TEST_P(DecompressTest, the_cap_itself_is_allowed) {
  const Bytes input = compressed(GetParam(), bytes_of("12345"));
  EXPECT_TRUE(decompress(GetParam(), input, {.output_bytes_max = 5}).ok());
  EXPECT_EQ(decompress(GetParam(), input, {.output_bytes_max = 4}).status().code(), Code::corrupt);
}

TEST_P(DecompressTest, a_restart_forgets_a_failure) {
  const Bytes input = compressed(GetParam(), bytes_of("12345"));
  auto decompressor = Decompressor::make(GetParam(), {.output_bytes_max = 1});
  MemorySink sink;
  ASSERT_FALSE(decompressor->feed(input, sink).ok());
  decompressor->restart(5);
  sink.bytes.clear();
  ASSERT_TRUE(decompressor->feed(input, sink).ok());
  EXPECT_TRUE(decompressor->finish().ok());
  EXPECT_EQ(sink.bytes, bytes_of("12345"));
}

INSTANTIATE_TEST_SUITE_P(codecs, DecompressTest, ::testing::Values(Codec::zstd, Codec::gzip),
                         [](const auto& codec) {
                           return codec.param == Codec::zstd ? "zstd" : "gzip";
                         });

TEST(DecompressZstdTest, a_window_beyond_the_limit_is_unsupported_and_says_what_to_do) {
  // Frame header: no content size, a window of 2^(10 + 21) bytes.
  const Bytes input = bytes_of(std::string("\x28\xB5\x2F\xFD\x00\xA8\x01\x00\x00", 9));
  const auto result = decompress(Codec::zstd, input, kRoomy);
  EXPECT_EQ(result.status().code(), Code::unsupported);
  EXPECT_NE(result.status().message().find("--long"), std::string_view::npos);
}

TEST(DecompressZstdTest, a_frame_that_claims_exabytes_costs_nothing) {
  // Single segment is not set; the content size of 8 bytes is a lie.
  const Bytes input = bytes_of(
      std::string("\x28\xB5\x2F\xFD\xC0\x50\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x0F\x09\x00\x00x", 18));
  EXPECT_EQ(decompress(Codec::zstd, input, kRoomy).status().code(), Code::corrupt);
}

TEST(DecompressGzipTest, zero_bytes_after_a_member_are_padding_as_python_has_it) {
  const Bytes input = joined(compressed(Codec::gzip, bytes_of("text")), Bytes(7));
  EXPECT_EQ(*decompress(Codec::gzip, input, kRoomy), bytes_of("text"));
}

}  // namespace
}  // namespace stoker
