#include "base/checksum.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <vector>

namespace stoker {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

/// Byte i is 7 * i + 3: what the reference tools were given.
std::vector<std::byte> pattern(std::size_t size) {
  std::vector<std::byte> data(size);
  for (std::size_t i = 0; i < size; ++i) data[i] = static_cast<std::byte>(7 * i + 3);
  return data;
}

struct KnownHash {
  std::size_t length;
  const char* hex;
};

// Printed by `head -c LENGTH pattern | xxhsum -H2`, xxhsum 0.8.1: one or more for each of the
// algorithm's ranges of length.
constexpr KnownHash kXxh3Known[] = {
    {0, "99aa06d3014798d86001c324468d497f"},       {1, "22bbb76b211a39ba13e608bc156defed"},
    {3, "ce31763cbf8245a5a9088dda485b481c"},       {8, "e3bc8a5f461715553cd024e3d63a1588"},
    {16, "ce0b9647ab24f88460d75c5e47d40a24"},      {17, "bfd327edcc2fbd12eeed7654312a26d7"},
    {129, "293e4968c4619023bd91ce7ace4d385b"},     {240, "ad46c1021b076bc704e0b5f034bee80b"},
    {241, "ac6c3492c3d6b45d8beadd3a8874fe17"},     {1000, "6bcc7eff62da44c26c4f14bd97bd9e82"},
    {100'000, "d9e155dd16e141d00c056f6fcc340974"},
};

TEST(ChecksumTest, xxh3_prints_what_xxhsum_prints) {
  for (const KnownHash& known : kXxh3Known) {
    const std::vector<std::byte> data = pattern(known.length);
    EXPECT_EQ(xxh3_128(data).hex(), known.hex) << known.length;
  }
}

// From xxHash's own sanity check: what `low` and `high` mean must not depend on our hex().
TEST(ChecksumTest, xxh3_of_nothing_has_the_published_halves) {
  EXPECT_EQ(xxh3_128({}), (Digest128{.low = 0x6001C324468D497F, .high = 0x99AA06D3014798D8}));
}

TEST(ChecksumTest, digest_hex_reads_back_and_nothing_else_does) {
  const Digest128 digest = {.low = 1, .high = 0xAB00000000000000};
  EXPECT_EQ(digest.hex(), "ab000000000000000000000000000001");
  EXPECT_EQ(*Digest128::from_hex(digest.hex()), digest);
  for (const char* text :
       {"", "ab", "AB000000000000000000000000000001", "ab0000000000000000000000000000010",
        "ab00000000000000000000000000000g"}) {
    EXPECT_EQ(Digest128::from_hex(text).status().code(), Code::invalid_argument) << text;
  }
}

TEST(ChecksumTest, crc32c_gives_the_standard_values) {
  EXPECT_EQ(crc32c(bytes_of("123456789")), 0xE3069283U);
  EXPECT_EQ(crc32c({}), 0U);
  // RFC 3720, appendix B.4, as numbers.
  std::vector<std::byte> data(32);
  EXPECT_EQ(crc32c(data), 0x8A9136AAU);
  std::fill(data.begin(), data.end(), std::byte{0xFF});
  EXPECT_EQ(crc32c(data), 0x62A8AB43U);
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = static_cast<std::byte>(i);
  EXPECT_EQ(crc32c(data), 0x46DD794EU);
  std::reverse(data.begin(), data.end());
  EXPECT_EQ(crc32c(data), 0x113FDB5CU);
}

TEST(ChecksumTest, crc32c_continues_from_a_crc) {
  EXPECT_EQ(crc32c(bytes_of("6789"), crc32c(bytes_of("12345"))), 0xE3069283U);
}

// The loop that keeps lengths inside the library's int, with a border that costs nothing to cross.
TEST(ChecksumTest, crc32c_is_the_same_in_pieces_of_any_size) {
  const std::vector<std::byte> data = pattern(1000);
  const std::uint32_t whole = crc32c(data);
  for (const std::size_t piece : {1U, 2U, 7U, 499U, 500U, 999U, 1000U, 1001U}) {
    EXPECT_EQ(internal::crc32c_in_pieces(data, 0, piece), whole) << piece;
  }
}

TEST(ChecksumTest, address_does_not_matter) {
  const std::vector<std::byte> data = pattern(5000);
  const Digest128 hash = xxh3_128(data);
  const std::uint32_t crc = crc32c(data);
  for (std::size_t shift = 1; shift < 64; ++shift) {
    std::vector<std::byte> moved(shift);
    moved.insert(moved.end(), data.begin(), data.end());
    EXPECT_EQ(xxh3_128(std::span(moved).subspan(shift)), hash) << shift;
    EXPECT_EQ(crc32c(std::span(moved).subspan(shift)), crc) << shift;
  }
}

/// Feeds `data` to `stream` in random pieces, empty ones among them.
template <typename Stream>
void feed(Stream& stream, std::span<const std::byte> data, std::mt19937_64& random) {
  const std::size_t piece_max = 1 + random() % 3000;
  while (!data.empty()) {
    const std::size_t size = std::min<std::size_t>(random() % (piece_max + 1), data.size());
    stream.update(data.first(size));
    data = data.subspan(size);
  }
  stream.update({});
}

TEST(ChecksumTest, streams_give_the_one_shot_value_however_the_bytes_are_cut) {
  std::mt19937_64 random(42);
  Xxh3Stream hash;
  Crc32cStream crc;
  for (int round = 0; round < 100; ++round) {
    SCOPED_TRACE(round);
    const std::vector<std::byte> data = pattern(random() % 10'000);
    hash.reset();
    crc.reset();
    feed(hash, data, random);
    feed(crc, data, random);
    EXPECT_EQ(hash.digest(), xxh3_128(data));
    EXPECT_EQ(crc.digest(), crc32c(data));
  }
}

TEST(ChecksumTest, stream_digest_leaves_the_stream_open) {
  Xxh3Stream hash;
  EXPECT_EQ(hash.digest(), xxh3_128({}));
  hash.update(bytes_of("1234"));
  EXPECT_EQ(hash.digest(), xxh3_128(bytes_of("1234")));
  hash.update(bytes_of("56789"));
  EXPECT_EQ(hash.digest(), xxh3_128(bytes_of("123456789")));
}

TEST(ChecksumTest, moved_stream_goes_on_where_it_was) {
  const std::vector<std::byte> data = pattern(5000);
  auto first = std::make_unique<Xxh3Stream>();
  first->update(std::span(data).first(3000));
  Xxh3Stream second = std::move(*first);
  first.reset();  // the state must not point into what it was moved from
  second.update(std::span(data).subspan(3000));
  EXPECT_EQ(second.digest(), xxh3_128(data));
}

}  // namespace
}  // namespace stoker
