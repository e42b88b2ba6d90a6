#include "stoker/safetensors.h"

#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <iterator>

namespace stoker {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string header_of(std::string_view json) {
  const std::uint64_t length = json.size();
  std::string header(8, '\0');
  std::memcpy(header.data(), &length, 8);
  return header.append(json);
}

SafetensorsEntry entry(std::string name, TensorType type, std::vector<std::uint64_t> shape,
                       std::uint64_t begin = 0, std::uint64_t end = 0) {
  return {std::move(name), type, std::move(shape), begin, end};
}

TEST(SafetensorsTest, what_the_real_package_wrote_is_read) {
  std::ifstream stream(STOKER_GOLDEN_DIR "/safetensors/numpy.safetensors", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  const auto read = parse_safetensors(bytes_of(file), file.size());
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(read->data_offset_bytes, 280U);
  EXPECT_EQ(read->metadata, (std::map<std::string, std::string>{{"format", "pt"}}));
  EXPECT_EQ(read->entries, (std::vector{entry("b \"\xc3\xa9\"", TensorType::i64, {2}, 0, 16),
                                        entry("w", TensorType::f32, {2, 3}, 16, 40),
                                        entry("empty", TensorType::f16, {0, 7}, 40, 40),
                                        entry("scalar", TensorType::boolean, {}, 40, 41)}));
}

TEST(SafetensorsTest, what_we_write_is_the_real_packages_bytes) {
  std::ifstream stream(STOKER_GOLDEN_DIR "/safetensors/numpy.safetensors", std::ios::binary);
  const std::string file{std::istreambuf_iterator<char>(stream), {}};
  std::vector entries = {
      entry("b \"\xc3\xa9\"", TensorType::i64, {2}), entry("w", TensorType::f32, {2, 3}),
      entry("empty", TensorType::f16, {0, 7}), entry("scalar", TensorType::boolean, {})};
  const auto header = format_safetensors(entries, {{"format", "pt"}}, 8);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(*header, file.substr(0, 280));
}

TEST(SafetensorsTest, data_starts_at_a_multiple_of_what_was_asked_for) {
  for (const std::size_t align : {1U, 8U, 64U, 4096U}) {
    std::vector entries = {entry("a", TensorType::f8_e8m0, {5}), entry("b", TensorType::f4, {4})};
    const auto header = format_safetensors(entries, {}, align);
    ASSERT_TRUE(header.ok());
    EXPECT_EQ(header->size() % align, 0U);
    const auto read = parse_safetensors(bytes_of(*header), header->size() + 7);
    ASSERT_TRUE(read.ok()) << read.status().message();
    EXPECT_EQ(read->data_offset_bytes, header->size());
    EXPECT_EQ(read->entries, entries);
    EXPECT_EQ(entries[1].begin_bytes, 5U);
    EXPECT_EQ(entries[1].end_bytes, 7U);
  }
}

TEST(SafetensorsTest, types_and_their_names_lead_to_each_other) {
  std::size_t bits_before = 0;
  for (int i = 0; i <= static_cast<int>(TensorType::u64); ++i) {
    const auto type = static_cast<TensorType>(i);
    const auto parsed = parse_tensor_type(tensor_type_name(type));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, type);
    EXPECT_GE(tensor_type_bits(type), bits_before);
    bits_before = tensor_type_bits(type);
  }
  EXPECT_EQ(parse_tensor_type("f32").status().code(), Code::unsupported);
}

TEST(SafetensorsTest, sizes_are_whole_and_do_not_wrap) {
  using Shape = std::vector<std::uint64_t>;
  EXPECT_EQ(*tensor_bytes(TensorType::f6_e2m3, Shape{4}), 3U);
  EXPECT_EQ(*tensor_bytes(TensorType::f64, Shape{}), 8U);
  EXPECT_EQ(*tensor_bytes(TensorType::f64, Shape{0, UINT64_MAX}), 0U);
  EXPECT_EQ(*tensor_bytes(TensorType::u8, Shape{std::uint64_t{1} << 63}), std::uint64_t{1} << 63);
  EXPECT_FALSE(tensor_bytes(TensorType::f4, Shape{3}).ok());
  EXPECT_FALSE(tensor_bytes(TensorType::f64, Shape{std::uint64_t{1} << 61}).ok());
  EXPECT_FALSE(tensor_bytes(TensorType::u8, Shape{std::uint64_t{1} << 32, 1ULL << 32}).ok());
}

TEST(SafetensorsTest, names_that_no_reader_would_take_are_not_written) {
  for (const std::string name : {"__metadata__", "\xff", "twice"}) {
    std::vector entries = {entry("twice", TensorType::u8, {1}), entry(name, TensorType::u8, {1})};
    EXPECT_EQ(format_safetensors(entries, {}, 8).status().code(), Code::invalid_argument) << name;
  }
  std::vector<SafetensorsEntry> none;
  EXPECT_EQ(format_safetensors(none, {{"a", "\xff"}}, 8).status().code(), Code::invalid_argument);
  EXPECT_EQ(format_safetensors(none, {}, 0).status().code(), Code::invalid_argument);
  EXPECT_EQ(format_safetensors(none, {}, 1)->substr(8), "{}");
}

TEST(SafetensorsTest, hostile_headers_are_refused_with_their_reason) {
  const std::string tensor = R"("t":{"dtype":"U8","shape":[2],"data_offsets":[0,2]})";
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string json = "{" + tensor + "}";
    return header_of(json.replace(json.find(from), from.size(), to));
  };
  struct Hostile {
    std::string header;
    std::uint64_t data_bytes;
    const char* reason;
  };
  const Hostile cases[] = {
      {"", 0, "no room for its length"},
      {"1234567", 0, "no room for its length"},
      {header_of(""), 0, "does not begin with {"},
      {header_of(" {}"), 0, "does not begin with {"},
      {header_of("[]"), 0, "does not begin with {"},
      {header_of("{}").replace(0, 8, "\xff\xff\xff\xff\xff\xff\xff\xff"), 0, "are allowed"},
      {header_of("{}").replace(0, 1, "\x03"), 0, "exceeds the file"},
      {header_of("{}").replace(0, 1, "\x03"), 1, "of its 11 bytes were given"},
      {header_of("{}"), 1, "the tensors end at 0, the data at 1"},
      {header_of("{} x"), 0, "not valid JSON"},
      {header_of(std::string("{}\0", 3)), 0, "not valid JSON"},
      {header_of("{" + tensor + "," + tensor + "}"), 2, "duplicate"},
      {header_of(R"({"__metadata__":{"a":1}})"), 0, "is not a string"},
      {header_of(R"({"__metadata__":[]})"), 0, "not an object"},
      {header_of(R"({"t":[]})"), 0, "not an object"},
      {with(R"("dtype":"U8",)", ""), 2, "dtype: missing"},
      {with("U8", "F32"), 2, "has 8 bytes by its shape, 2 by its place"},
      {with("[2]", "[-2]"), 2, "negative"},
      {with("[2]", "[2.0]"), 2, "not an integer"},
      {with("[2]", "[18446744073709551615,3]"), 2, "more than 2^64 elements"},
      {with("[0,2]", "[0,2,3]"), 2, "not two numbers"},
      {with("[0,2]", "[1,3]"), 3, "the one before it ends at 0"},
      {with("[0,2]", "[2,0]"), 2, "the one before it ends at 0"},
      {with("[0,2]", "[0,18446744073709551615]"), 2, "by its place"},
      {with("[0,2]", "[0,2]"), 3, "the tensors end at 2, the data at 3"},
      {with("}}", R"(},"u":{"dtype":"U8","shape":[2],"data_offsets":[1,3]}})"), 3, "tensor \"u\""},
      {with("}}", R"(},"u":{"dtype":"U8","shape":[1],"data_offsets":[3,4]}})"), 4, "tensor \"u\""},
  };
  for (const Hostile& hostile : cases) {
    const auto read =
        parse_safetensors(bytes_of(hostile.header), hostile.header.size() + hostile.data_bytes);
    ASSERT_FALSE(read.ok()) << hostile.reason;
    EXPECT_EQ(read.status().code(), Code::corrupt) << hostile.reason;
    const std::string message(read.status().message());
    EXPECT_NE(message.find(hostile.reason), std::string::npos) << message;
  }
  EXPECT_TRUE(parse_safetensors(bytes_of(with("U8", "I8")), with("U8", "I8").size() + 2).ok());
  EXPECT_EQ(
      parse_safetensors(bytes_of(with("U8", "Q8")), with("U8", "Q8").size() + 2).status().code(),
      Code::unsupported);
}

}  // namespace
}  // namespace stoker
