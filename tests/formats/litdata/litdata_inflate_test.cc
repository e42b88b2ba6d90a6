#include "formats/litdata/litdata_inflate.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

#include "base/hex.h"
#include "formats/mds/mds_compression.h"
#include "golden/litdata/litdata_golden.h"
#include "golden/litdata/litdata_old_golden.h"

namespace stoker {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok());
  return bytes;
}

template <typename Number>
void put(Bytes& bytes, std::size_t at, Number number) {
  std::memcpy(bytes.data() + at, &number, sizeof number);
}

TEST(LitdataInflateTest, all_compressions_give_the_same_plain_chunk) {
  const Bytes plain = from_hex(testing::kLitdataTreeChunk);
  for (const auto& [hex, text] :
       {std::pair(testing::kLitdataTreeChunk, testing::kLitdataTreeIndex),
        std::pair(testing::kLitdataWholeChunk, testing::kLitdataWholeIndex),
        std::pair(testing::kLitdataBatchChunk, testing::kLitdataBatchIndex),
        std::pair(testing::kLitdataSampleChunk, testing::kLitdataSampleIndex),
        // Left plain by the peer, whatever its index says.
        std::pair(testing::kLitdataTreeChunk, testing::kLitdataBatchIndex),
        std::pair(testing::kLitdataTreeChunk, testing::kLitdataSampleIndex)}) {
    const auto index = parse_litdata_index(text);
    const auto inflated = inflate_litdata_chunk(*index, index->chunks[0], from_hex(hex));
    ASSERT_TRUE(inflated.ok()) << inflated.status().message();
    EXPECT_EQ(*inflated, plain);
  }
}

TEST(LitdataInflateTest, chunks_of_versions_that_did_not_count_the_table_are_read) {
  for (const auto& [hex, text, size_bytes] :
       {std::tuple(testing::kLitdataOldWholeChunk, testing::kLitdataOldWholeIndex, 77U),
        std::tuple(testing::kLitdataOldTokensWholeChunk, testing::kLitdataOldTokensWholeIndex,
                   64U)}) {
    const auto index = parse_litdata_index(text);
    const auto inflated = inflate_litdata_chunk(*index, index->chunks[0], from_hex(hex));
    ASSERT_TRUE(inflated.ok()) << inflated.status().message();
    EXPECT_EQ(inflated->size(), size_bytes);
  }
  // The sum of a hostile size and the table must not wrap round.
  const auto index = parse_litdata_index(testing::kLitdataOldWholeIndex);
  LitdataChunk chunk = index->chunks[0];
  chunk.size_bytes = UINT64_MAX;
  const Bytes file = from_hex(testing::kLitdataOldWholeChunk);
  EXPECT_EQ(inflate_litdata_chunk(*index, chunk, file).status().code(), Code::corrupt);
}

TEST(LitdataInflateTest, each_wrong_directory_of_frames_is_refused_with_its_offset) {
  // Two frames, of samples 0 and 1 and of sample 2; their entries are at 40 and 64.
  struct Hostile {
    const char* reason;
    std::size_t at;
    std::uint32_t number;
    const char* message;
  };
  const Hostile cases[] = {
      {"version 2", 8, 2, "byte 8: only version 1"},
      {"flags", 8, 0x10001, "byte 8: only version 1"},
      {"samples without end", 12, 0xFFFFFFFF, "byte 12: tables for 4294967295 samples"},
      {"frames without end", 20, 0xFFFFFFFF, "byte 12: tables for 3 samples in 4294967295"},
      {"does not start at 0", 24, 1, "byte 24: sample 0 at 1"},
      {"offsets go back", 28, 0xF5, "byte 32: sample 2 at 244 is before 245"},
      {"plain chunk of 4 GiB", 36, 0xFFFFFFFF, "byte 36: the plain chunk is larger than"},
      {"first frame is not first", 40, 1, "byte 40: frame 0 has 2 samples from 1 on"},
      {"frame without samples", 44, 0, "byte 40: frame 0 has 0 samples"},
      {"samples beyond the last", 44, 4, "byte 40: frame 0 has 4 samples"},
      {"overlaps the tables", 48, 80, "byte 48: frame 0 has 95 bytes at 80"},
      {"far away", 52, 1, "byte 48: frame 0 has 95 bytes at 4294967384"},
      {"too long", 56, 0xFFFFFFFF, "byte 48: frame 0 has 4294967295 bytes"},
      {"too short", 56, 94, "byte 88: compressed byte 94: the compressed data ends too early"},
      {"samples of other sizes", 60, 245, "byte 60: frame 0 of 245 bytes"},
      {"second frame overlaps", 72, 88, "byte 72: frame 1 has 92 bytes at 88"},
  };
  const auto index = parse_litdata_index(testing::kLitdataBatchIndex);
  for (const Hostile& hostile : cases) {
    Bytes file = from_hex(testing::kLitdataBatchChunk);
    put(file, hostile.at, hostile.number);
    const auto inflated = inflate_litdata_chunk(*index, index->chunks[0], file);
    ASSERT_FALSE(inflated.ok()) << hostile.reason;
    EXPECT_TRUE(
        inflated.status().message().starts_with(std::string("chunk-0-0.bin: ") + hostile.message))
        << hostile.reason << ": " << inflated.status().message();
  }
}

TEST(LitdataInflateTest, more_than_the_index_says_is_corrupt) {
  auto index = parse_litdata_index(testing::kLitdataWholeIndex);
  const Bytes file = from_hex(testing::kLitdataWholeChunk);
  for (const int difference : {-21, -19, -1, 1}) {
    LitdataChunk chunk = index->chunks[0];
    chunk.size_bytes += static_cast<std::uint64_t>(difference);
    EXPECT_EQ(inflate_litdata_chunk(*index, chunk, file).status().code(), Code::corrupt);
  }
}

TEST(LitdataInflateTest, samples_that_are_bombs_share_one_budget) {
  const Bytes bomb = *compress_mds({.codec = Codec::zstd, .level = 9}, Bytes(1 << 20));
  constexpr std::uint32_t kCount = 64;
  Bytes file(4 * (kCount + 2));
  put(file, 0, kCount);
  for (std::uint32_t i = 0; i <= kCount; ++i) {
    put(file, 4 * (i + 1), static_cast<std::uint32_t>(4 * (kCount + 2) + i * bomb.size()));
  }
  for (std::uint32_t i = 0; i < kCount; ++i) file.insert(file.end(), bomb.begin(), bomb.end());
  const auto index = parse_litdata_index(testing::kLitdataSampleIndex);
  const auto inflated = inflate_litdata_chunk(*index, index->chunks[0], file);
  EXPECT_EQ(inflated.status().code(), Code::corrupt);
  EXPECT_NE(inflated.status().message().find("decompresses to more than"), std::string_view::npos);
  EXPECT_TRUE(inflate_litdata_chunk(*index, index->chunks[0], file, {.ratio_max = 100'000}).ok());
  EXPECT_FALSE(inflate_litdata_chunk(*index, index->chunks[0], file,
                                     {.output_bytes_max = 1 << 20, .ratio_max = 100'000})
                   .ok());
}

}  // namespace
}  // namespace stoker
