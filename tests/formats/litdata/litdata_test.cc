#include <gtest/gtest.h>

#include <cstring>

#include "base/hex.h"
#include "conformance/shard_format_support.h"
#include "formats/litdata/litdata_chunk.h"
#include "formats/litdata/litdata_inflate.h"
#include "formats/litdata/litdata_spec.h"
#include "golden/litdata/litdata_golden.h"
#include "golden/litdata/litdata_old_golden.h"

namespace stoker::testing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok());
  return bytes;
}

std::size_t no_read_ahead() {
  return 0;
}

/// "name=type:dtype:shape:bytes in hexadecimal" for each field.
std::vector<std::string> described(const SampleView& sample) {
  std::vector<std::string> texts;
  for (const FieldView& field : sample.fields) {
    std::string text(field.name);
    text += "=" + std::to_string(static_cast<int>(field.type)) + ":" + std::string(field.dtype);
    for (const std::uint64_t dimension : field.shape) text += ":" + std::to_string(dimension);
    texts.push_back(text + ":" + format_hex(field.bytes));
  }
  return texts;
}

Status read_all(const ShardReader& reader, const Bytes& chunk,
                std::vector<std::vector<std::string>>& out) {
  RecordList found;
  STOKER_TRY(scan_shard(reader, chunk, no_read_ahead, found));
  SampleView view;
  for (const FoundRecord& record : found.records) {
    STOKER_TRY(
        reader.split(std::span(chunk).subspan(record.range.offset_bytes, record.range.size_bytes),
                     record.range.offset_bytes, view));
    out.push_back(described(view));
  }
  return {};
}

std::vector<std::vector<std::string>> tree_samples() {
  std::vector<std::vector<std::string>> samples;
  for (int i = 0; i < 3; ++i) {
    const std::string digit = std::to_string(i);
    samples.push_back({"a=3::0" + digit + "00000000000000", "b=1::68693" + digit,
                       "c=2::5b2278222c2279225d",  // ["x","y"]
                       "d.0=6:<i2:2:3:000001000200030004000500",
                       "d.1=6:<i8:2:2:0000000000000000010000000000000002000000000000000300000000000"
                       "000"});
  }
  return samples;
}

struct GoldenChunk {
  std::string name;
  const char* chunk;
  const char* index;
};
void PrintTo(const GoldenChunk& golden, std::ostream* out) {
  *out << golden.name;
}

class LitdataGoldenTest : public ::testing::TestWithParam<GoldenChunk> {};

TEST_P(LitdataGoldenTest, the_peers_chunk_reads_as_what_it_was_given) {
  const auto index = parse_litdata_index(GetParam().index);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const auto plain = inflate_litdata_chunk(*index, index->chunks[0], from_hex(GetParam().chunk));
  ASSERT_TRUE(plain.ok()) << plain.status().message();
  const auto reader = LitdataReader::make(*index);
  ASSERT_TRUE((*reader)->scan_chunk(index->chunks[0], plain->size()).ok());
  std::vector<std::vector<std::string>> samples;
  const Status status = read_all(**reader, *plain, samples);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(samples, tree_samples());
}

TEST_P(LitdataGoldenTest, every_truncation_is_corrupt_and_no_flipped_bit_does_harm) {
  const auto index = parse_litdata_index(GetParam().index);
  const auto reader = LitdataReader::make(*index);
  const Bytes file = from_hex(GetParam().chunk);
  const auto read_damaged = [&](const Bytes& damaged) -> Status {
    STOKER_ASSIGN(const Bytes plain, inflate_litdata_chunk(*index, index->chunks[0], damaged));
    std::vector<std::vector<std::string>> samples;
    return read_all(**reader, plain, samples);
  };
  for (std::size_t size = 0; size < file.size(); ++size) {
    const Status status = read_damaged(Bytes(file.begin(), file.begin() + static_cast<long>(size)));
    EXPECT_EQ(status.code(), Code::corrupt) << size << status.message();
  }
  for (std::size_t i = 0; i < 8 * file.size(); ++i) {
    Bytes damaged = file;
    damaged[i / 8] ^= std::byte{1} << (i % 8);
    const Status status = read_damaged(damaged);
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
}

INSTANTIATE_TEST_SUITE_P(
    chunks, LitdataGoldenTest,
    ::testing::Values(GoldenChunk{"tree", kLitdataTreeChunk, kLitdataTreeIndex},
                      GoldenChunk{"whole", kLitdataWholeChunk, kLitdataWholeIndex},
                      GoldenChunk{"batch", kLitdataBatchChunk, kLitdataBatchIndex},
                      GoldenChunk{"sample", kLitdataSampleChunk, kLitdataSampleIndex}),
    [](const auto& test) { return test.param.name; });

TEST(LitdataTokensTest, tokens_come_as_written_and_in_blocks_without_the_remainder) {
  const auto index = parse_litdata_index(kLitdataTokensIndex);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const Bytes chunk = from_hex(kLitdataTokensChunk);
  RecordList items;
  ASSERT_TRUE(scan_shard(**LitdataReader::make(*index), chunk, no_read_ahead, items).ok());
  const std::vector<FoundRecord> as_written = {{{16, 20}, ""}, {{36, 28}, ""}};
  EXPECT_EQ(items.records, as_written);

  const auto reader = LitdataReader::make(*index, {.block_tokens = 5});
  std::vector<std::vector<std::string>> blocks;
  ASSERT_TRUE(read_all(**reader, chunk, blocks).ok());
  ASSERT_EQ(blocks.size(), 2U);
  EXPECT_EQ(blocks[1][0], "item=6:<i4:5:0000000001000000020000000300000004000000");

  LitdataChunk wrong = index->chunks[0];
  wrong.token_count = 11;
  const auto scanner = (*reader)->scan_chunk(wrong, chunk.size());
  RecordList found;
  EXPECT_EQ((*scanner)->feed(chunk, found).message(), "byte 16: 12 tokens, the index says 11");
  EXPECT_TRUE(found.records.empty());
}

TEST(LitdataTokensTest, only_tokens_come_in_blocks) {
  const auto index = parse_litdata_index(kLitdataTreeIndex);
  EXPECT_EQ(LitdataReader::make(*index, {.block_tokens = 5}).status().code(),
            Code::invalid_argument);
}

TEST(LitdataHostileTest, each_wrong_chunk_is_refused_and_names_the_offset) {
  struct Hostile {
    const char* reason;
    std::size_t at;
    std::uint32_t number;
    const char* message;
  };
  const Hostile cases[] = {
      {"count of 4 billion", 0, 0xFFFFFFFF, "byte 0: a table for 4294967295 records"},
      {"a gap behind the table", 4, 21, "byte 4: record 0 at 21 is more than 0 bytes behind"},
      {"overlap", 8, 19, "byte 8: record 0 ends at 19, before its start at 20"},
      {"bytes at the end", 16, 380, "byte 380: 6 bytes are left after the last item"},
      {"more bytes at the end", 16, 360, "byte 360: 26 bytes are left after the last item"},
      {"int of another size", 20, 7, "byte 40: leaf \"a\": 7 bytes, int64 takes 8"},
      {"leaf beyond the item", 24, 0xFFFFFFFF, "byte 48: leaf \"b\" takes 4294967295 bytes"},
      {"unknown dtype", 66, 99, "byte 66: leaf \"d.0\": element type code 99 is unknown"},
      {"a million dimensions", 70, 1'000'000, "byte 66: leaf \"d.0\": the array has 1000000"},
      {"a shape that lies", 74, 3, "byte 66: leaf \"d.0\": the array's shape does not match"},
      {"a tensor of two byte orders", 94, 18, "byte 94: leaf \"d.1\": the array has 33554432"},
  };
  const auto index = parse_litdata_index(kLitdataTreeIndex);
  const auto reader = LitdataReader::make(*index);
  for (const Hostile& hostile : cases) {
    Bytes chunk = from_hex(kLitdataTreeChunk);
    std::memcpy(chunk.data() + hostile.at, &hostile.number, 4);
    std::vector<std::vector<std::string>> samples;
    const Status status = read_all(**reader, chunk, samples);
    EXPECT_EQ(status.code(), Code::corrupt) << hostile.reason;
    EXPECT_TRUE(status.message().starts_with(hostile.message))
        << hostile.reason << ": " << status.message();
  }
}

TEST(LitdataHostileTest, arrow_rows_behind_the_items_are_skipped_and_alone_they_are_unsupported) {
  const auto index = parse_litdata_index(kLitdataTreeIndex);
  const auto reader = LitdataReader::make(*index);
  const Bytes footer = from_hex(
      "41525257"
      "04000000"
      "4c44415257303100");
  Bytes chunk = from_hex(kLitdataTreeChunk);
  chunk.insert(chunk.end(), footer.begin(), footer.end());
  std::vector<std::vector<std::string>> samples;
  ASSERT_TRUE(read_all(**reader, chunk, samples).ok());
  EXPECT_EQ(samples, tree_samples());

  Bytes alone = from_hex(
      "01000000"
      "0c000000"
      "0c000000");
  alone.insert(alone.end(), footer.begin(), footer.end());
  const Status status = read_all(**reader, alone, samples);
  EXPECT_EQ(status.code(), Code::unsupported);
  EXPECT_NE(status.message().find("pyarrow"), std::string_view::npos);
}

std::string edited(std::string_view from, std::string_view to) {
  std::string text = kLitdataTreeIndex;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(LitdataTest, headers_of_tensors_may_be_little_endian) {
  const auto index = parse_litdata_index(kLitdataOldTreeIndex);
  ASSERT_TRUE(index.ok()) << index.status().message();
  std::vector<std::vector<std::string>> samples;
  const Status status =
      read_all(**LitdataReader::make(*index), from_hex(kLitdataOldTreeChunk), samples);
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(samples,
            (std::vector<std::vector<std::string>>{
                {"t=6:<i8:2:2:0000000000000000010000000000000002000000000000000300000000000000",
                 "z=6:|b1:1:2:1:0101"}}));
}

TEST(LitdataIndexTest, a_single_tensor_without_the_name_of_a_loader_is_tokens) {
  const auto index = parse_litdata_index(kLitdataOldTokensIndex);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_TRUE(index->is_tokens);
  const auto reader = LitdataReader::make(*index);
  ASSERT_TRUE(reader.ok());
  std::vector<std::vector<std::string>> samples;
  ASSERT_TRUE(read_all(**reader, from_hex(kLitdataOldTokensChunk), samples).ok());
  EXPECT_EQ(samples, (std::vector<std::vector<std::string>>{
                         {"item=6:<i4:5:0000000001000000020000000300000004000000"},
                         {"item=6:<i4:7:00000000010000000200000003000000040000000500000006000000"},
                     }));
  // A NumPy array alone was never stored so.
  std::string numpy = kLitdataOldTokensIndex;
  numpy.replace(numpy.find("no_header_tensor:16"), 19, "no_header_numpy:2");
  EXPECT_FALSE(parse_litdata_index(numpy)->is_tokens);
}

TEST(LitdataIndexTest, each_wrong_index_names_the_key_at_fault) {
  struct Hostile {
    std::string text;
    Code code;
    const char* message;
  };
  const Hostile cases[] = {
      {edited("\"json\"", "\"pickle\""), Code::unsupported, "leaf \"c\": format \"pickle\""},
      {edited("\"json\"", "\"mine\""), Code::unsupported,
       "format \"mine\" is not one of LitData's"},
      {edited("\"json\"", "\"no_header_numpy\""), Code::corrupt, "has no element type"},
      {edited("\"json\"", "\"no_header_numpy:14\""), Code::corrupt, "code 14 is unknown"},
      {edited("\"json\"", "\"no_header_tensor:5\""), Code::unsupported, "complex"},
      {edited("\"json\", ", ""), Code::corrupt, "4 formats for the 5 leaves"},
      {edited("\"encryption\": null", "\"encryption\": {}"), Code::unsupported, "encrypted"},
      {edited("PyTreeLoader", "ParquetLoader"), Code::unsupported, "ParquetLoader"},
      {edited("PyTreeLoader", "TokensLoader"), Code::corrupt, "tokens are one array"},
      {edited("\"compression\": null", "\"compression\": \"lz4\""), Code::unsupported, "only zstd"},
      {edited("\"compression\": null", "\"compression\": \"zstd\", \"compression_leve\": 1"),
       Code::ok, ""},
      {edited("chunk-0-0.bin", "../x.bin"), Code::corrupt, "is not a valid file name"},
      {edited("chunk-0-0.bin", "a/x.bin"), Code::corrupt, "is not a valid file name"},
      {edited("\"chunk_size\": 3", "\"chunk_size\": -3"), Code::corrupt, "chunk_size: negative"},
      {edited("\"chunk_bytes\": 386, ", ""), Code::corrupt, "chunks[0].chunk_bytes: missing"},
      {edited("builtins.tuple", "collections.deque"), Code::unsupported, "collections.deque"},
      {edited("[1, {", "[2, {"), Code::unsupported, "protocol 2"},
      {edited("\\\\\\\"b\\\\\\\", ", ""), Code::corrupt, "3 keys for 4 children"},
      {edited("\"data_spec\": \"", "\"data_spec\": \"["), Code::corrupt, "data_spec: byte"},
  };
  for (const Hostile& hostile : cases) {
    const auto parsed = parse_litdata_index(hostile.text);
    EXPECT_EQ(parsed.status().code(), hostile.code) << parsed.status().message();
    EXPECT_NE(parsed.status().message().find(hostile.message), std::string_view::npos)
        << parsed.status().message() << " lacks " << hostile.message;
  }
}

TEST(LitdataSpecTest, leaves_are_named_by_their_path) {
  const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
  const auto list = [](const std::string& children) {
    return R"({"type": "builtins.list", "context": "null", "children_spec": [)" + children + "]}";
  };
  const auto dict = [](const std::string& keys, const std::string& children) {
    return R"({"type": "builtins.dict", "context": ")" + keys + R"(", "children_spec": [)" +
           children + "]}";
  };
  const auto names = [](const std::string& tree) {
    return parse_litdata_spec("[1, " + tree + "]");
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(*names(leaf), Names{"item"});
  EXPECT_EQ(*names(list(leaf + "," + list(leaf))), (Names{"0", "1.0"}));
  EXPECT_EQ(*names(dict(R"([\"a\", 7])", leaf + "," + list(leaf))), (Names{"a", "7.0"}));
  EXPECT_EQ(*names(list("")), Names{});
  EXPECT_EQ(names(dict(R"([\"a.0\", \"a\"])", leaf + "," + list(leaf))).status().code(),
            Code::unsupported);
  EXPECT_EQ(names(dict(R"([\"a\", \"a\"])", leaf + "," + leaf)).status().code(), Code::unsupported);
  std::string deep = leaf;
  for (int i = 0; i < 40; ++i) deep = list(deep);
  EXPECT_EQ(names(deep).status().code(), Code::corrupt) << "nesting has an end";
}

}  // namespace
}  // namespace stoker::testing
