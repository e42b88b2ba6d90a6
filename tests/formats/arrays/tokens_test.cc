#include "formats/arrays/tokens.h"

#include <gtest/gtest.h>

#include <string>

#include "support/temp_dir.h"

namespace stoker {
namespace {

class MemorySink : public ByteSink {
 public:
  Status write(std::span<const std::byte> piece) override {
    if (full) return Status(Code::no_space, "the sink is full");
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
  bool full = false;
};

std::vector<std::byte> golden(const std::string& name) {
  const std::string text = testing::contents_of(STOKER_GOLDEN_DIR "/tokens/" + name);
  EXPECT_FALSE(text.empty()) << name;
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

constexpr TokenFormat kFormats[] = {TokenFormat::raw, TokenFormat::npy, TokenFormat::counted,
                                    TokenFormat::shard001};

TEST(TokensTest, formats_have_names_that_read_back) {
  for (const TokenFormat format : kFormats)
    EXPECT_EQ(*parse_token_format(token_format_name(format)), format);
  EXPECT_EQ(parse_token_format("tar").status().message(),
            "unknown token format 'tar'; there are raw, npy, counted, shard001");
}

TEST(TokensTest, every_format_and_dtype_reads_what_was_written) {
  for (const TokenFormat format : kFormats) {
    for (int number = 0; number <= static_cast<int>(Dtype::boolean); ++number) {
      const auto dtype = static_cast<Dtype>(number);
      MemorySink sink;
      Result<TokenWriter> writer = TokenWriter::make(sink, format, dtype, {3, 4});
      ASSERT_TRUE(writer.ok());
      const std::vector<std::byte> data(12 * dtype_size_bytes(dtype), std::byte{7});
      ASSERT_TRUE(writer->append(std::span(data).first(dtype_size_bytes(dtype))).ok());
      ASSERT_TRUE(writer->append(std::span(data).subspan(dtype_size_bytes(dtype))).ok());
      ASSERT_TRUE(writer->finish().ok());
      const Result<TokenLayout> layout = parse_tokens(format, sink.bytes, sink.bytes.size(), dtype);
      ASSERT_TRUE(layout.ok()) << layout.status().message();
      EXPECT_EQ(layout->dtype, dtype);
      EXPECT_EQ(layout->token_count, 12U);
      EXPECT_EQ(layout->data_offset_bytes + layout->data_size_bytes(), sink.bytes.size());
      EXPECT_LE(layout->data_offset_bytes, token_head_bytes_max(format));
      const bool rows = format != TokenFormat::raw;
      EXPECT_EQ(layout->sequence_count, rows ? 3U : 1U);
      EXPECT_EQ(layout->sequence_length, rows ? 4U : 12U);
      EXPECT_EQ(layout->sequence(layout->sequence_count - 1).end_bytes(), sink.bytes.size());
      EXPECT_EQ(layout->sequence(0).offset_bytes, layout->data_offset_bytes);
      EXPECT_EQ(layout->document_count(), layout->sequence_count);
      EXPECT_EQ(layout->document(0), (DocumentRange{0, 1}));
    }
  }
}

TEST(TokensTest, the_usual_dtypes_need_no_saying_and_raw_does) {
  MemorySink counted;
  ASSERT_TRUE(TokenWriter::make(counted, TokenFormat::counted, Dtype::int32, {0, 5}).ok());
  EXPECT_EQ(parse_tokens(TokenFormat::counted, counted.bytes, 24)->dtype, Dtype::int32);
  MemorySink shard001;
  ASSERT_TRUE(TokenWriter::make(shard001, TokenFormat::shard001, Dtype::float32, {0, 5}).ok());
  EXPECT_EQ(parse_tokens(TokenFormat::shard001, shard001.bytes, 64)->dtype, Dtype::float32);
  EXPECT_EQ(parse_tokens(TokenFormat::raw, {}, 8).status().code(), Code::invalid_argument);
}

TEST(TokensTest, a_npy_of_another_dtype_than_stated_is_refused_but_for_bfloat16) {
  const std::vector<std::byte> file = golden("uint16_1d_v2.npy");
  EXPECT_EQ(parse_tokens(TokenFormat::npy, file, file.size(), Dtype::int32).status().message(),
            "the file holds uint16, not int32");
  EXPECT_EQ(parse_tokens(TokenFormat::npy, file, file.size(), Dtype::bfloat16)->dtype,
            Dtype::bfloat16);
  const TokenLayout layout = *parse_tokens(TokenFormat::npy, file, file.size());
  EXPECT_EQ(layout.sequence_count, 1U);
  EXPECT_EQ(layout.sequence_length, 3U);
}

TEST(TokensTest, a_small_file_never_has_many_sequences) {
  // Rows of no elements: 2^60 of them would cost the layers above their memory.
  MemorySink sink;
  ASSERT_TRUE(
      TokenWriter::make(sink, TokenFormat::npy, Dtype::int32, {std::uint64_t{1} << 60, 0}).ok());
  const TokenLayout layout = *parse_tokens(TokenFormat::npy, sink.bytes, sink.bytes.size());
  EXPECT_EQ(layout.sequence_count, 0U);
  EXPECT_EQ(layout.token_count, 0U);
}

TEST(TokensTest, megatrons_index_becomes_a_layout) {
  const std::vector<std::byte> idx = golden("uint16.idx");
  const Result<TokenLayout> layout = layout_of_megatron(idx, 12);
  ASSERT_TRUE(layout.ok()) << layout.status().message();
  EXPECT_EQ(layout->token_count, 6U);
  EXPECT_EQ(layout->sequence_count, 3U);
  EXPECT_EQ(layout->sequence(2), (ByteRange{8, 4}));
  EXPECT_EQ(layout->document_count(), 3U);
  EXPECT_EQ(layout->document(1), (DocumentRange{1, 2}));
  EXPECT_EQ(layout_of_megatron(idx, 14).status().code(), Code::corrupt);
  EXPECT_EQ(layout_of_megatron({}, 0).status().code(), Code::corrupt);
}

TEST(TokensTest, the_writer_holds_its_caller_to_the_shape) {
  MemorySink sink;
  Result<TokenWriter> writer = TokenWriter::make(sink, TokenFormat::raw, Dtype::uint16, {1, 2});
  const std::vector<std::byte> bytes(6);
  EXPECT_EQ(writer->append(bytes).code(), Code::invalid_argument);
  EXPECT_EQ(writer->append(std::span(bytes).first(1)).code(), Code::invalid_argument);
  ASSERT_TRUE(writer->append(std::span(bytes).first(2)).ok());
  EXPECT_EQ(writer->finish().code(), Code::invalid_argument);
  ASSERT_TRUE(writer->append(std::span(bytes).first(2)).ok());
  ASSERT_TRUE(writer->finish().ok());
  EXPECT_EQ(writer->append({}).code(), Code::invalid_argument);
  EXPECT_EQ(sink.bytes.size(), 4U);
  for (const TokenFormat format : {TokenFormat::raw, TokenFormat::counted, TokenFormat::shard001})
    EXPECT_EQ(TokenWriter::make(sink, format, Dtype::uint16, {5, 0}).status().code(),
              Code::invalid_argument);
}

TEST(TokensTest, a_failed_sink_fails_the_writer_for_good) {
  MemorySink sink;
  Result<TokenWriter> writer = TokenWriter::make(sink, TokenFormat::npy, Dtype::uint8, {1, 2});
  sink.full = true;
  const std::vector<std::byte> bytes(2);
  EXPECT_EQ(writer->append(bytes).code(), Code::no_space);
  sink.full = false;
  EXPECT_EQ(writer->append(bytes).code(), Code::no_space);
  EXPECT_EQ(writer->finish().code(), Code::no_space);
  sink.full = true;
  EXPECT_EQ(TokenWriter::make(sink, TokenFormat::npy, Dtype::uint8, {1, 2}).status().code(),
            Code::no_space);
}

}  // namespace
}  // namespace stoker
