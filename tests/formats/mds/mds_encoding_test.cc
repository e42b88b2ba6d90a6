#include "formats/mds/mds_encoding.h"

#include <gtest/gtest.h>

#include <string>

#include "formats/mds/mds_compression.h"
#include "formats/mds/mds_index.h"
#include "golden/mds/mds_golden.h"

namespace stoker {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(MdsEncodingTest, every_encoding_of_the_peer_that_is_data_has_its_type_and_size) {
  struct Known {
    const char* text;
    FieldType type;
    std::optional<std::uint32_t> fixed_bytes;
  };
  const Known cases[] = {
      {"bytes", FieldType::bytes, {}},
      {"str", FieldType::text, {}},
      {"int", FieldType::int64, 8},
      {"ndarray", FieldType::array, {}},
      {"ndarray:int16", FieldType::array, {}},
      {"ndarray:int16:2,3", FieldType::array, 12},
      {"uint8", FieldType::array, 1},
      {"uint16", FieldType::array, 2},
      {"uint32", FieldType::array, 4},
      {"uint64", FieldType::array, 8},
      {"int8", FieldType::array, 1},
      {"int16", FieldType::array, 2},
      {"int32", FieldType::array, 4},
      {"int64", FieldType::int64, 8},
      {"float16", FieldType::array, 2},
      {"float32", FieldType::float32, 4},
      {"float64", FieldType::float64, 8},
      {"str_int", FieldType::int64, {}},
      {"str_float", FieldType::float64, {}},
      {"str_decimal", FieldType::text, {}},
      {"pil", FieldType::bytes, {}},
      {"jpeg", FieldType::bytes, {}},
      {"jpeg_array", FieldType::bytes, {}},
      {"jpegarray", FieldType::bytes, {}},
      {"png", FieldType::bytes, {}},
      {"list[pil]", FieldType::bytes, {}},
      {"list[jpeg]", FieldType::bytes, {}},
      {"list[png]", FieldType::bytes, {}},
      {"json", FieldType::json, {}},
  };
  for (const Known& known : cases) {
    const auto encoding = parse_mds_encoding(known.text);
    ASSERT_TRUE(encoding.ok()) << known.text;
    EXPECT_EQ(encoding->type, known.type) << known.text;
    EXPECT_EQ(encoding->fixed_bytes, known.fixed_bytes) << known.text;
  }
}

TEST(MdsEncodingTest, what_is_code_or_unknown_is_unsupported_and_nonsense_is_corrupt) {
  for (const char* text : {"pkl", "tensor", "", "str:4", "list[int]"})
    EXPECT_EQ(parse_mds_encoding(text).status().code(), Code::unsupported) << text;
  for (const char* text :
       {"ndarray:f4", "ndarray::3", "ndarray:int8:", "ndarray:int8:0", "ndarray:int8:-1",
        "ndarray:int8:3,", "ndarray:int8: 3", "ndarray:int8:3:4", "ndarray:int8:4294967296",
        "ndarray:int64:4294967295,4294967295,4294967295", "ndarray:bool"})
    EXPECT_EQ(parse_mds_encoding(text).status().code(), Code::corrupt) << text;
  std::string many = "ndarray:int8:1";
  for (int i = 0; i < 63; ++i) many += ",1";
  EXPECT_EQ(parse_mds_encoding(many).status().code(), Code::corrupt) << "64 dimensions";
}

TEST(MdsEncodingTest, hostile_arrays_are_corrupt_each_with_its_own_message) {
  struct Hostile {
    const char* encoding;
    std::string value;
    const char* message;
  };
  using namespace std::string_literals;
  const Hostile cases[] = {
      {"ndarray", "", "the array is empty, its element type is missing"},
      {"ndarray", "\x0a", "element type code 10 is unknown"},
      {"ndarray", "\x08", "the array ends before its shape"},
      {"ndarray", "\x08\x08\x01", "the array ends inside its shape"},
      {"ndarray", "\x08\x04\x02x", "the array's shape takes 2 bytes, it has 1"},
      {"ndarray:int8", "\x04\x00"s, "the array has a dimension of 0"},
      {"ndarray:int64", "\x0b\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
       "the array's shape overflows"},
      {"ndarray:int8", "\x04\x01xx", "the array's shape takes 1 bytes, it has 2"},
      {"ndarray:int16:2", "abc", "3 bytes, encoding \"ndarray:int16:2\" takes 4"},
      {"int", "1234567", "7 bytes, encoding \"int\" takes 8"},
  };
  for (const Hostile& hostile : cases) {
    SampleView storage;
    FieldView field;
    const Status status = decode_mds_value(*parse_mds_encoding(hostile.encoding),
                                           bytes_of(hostile.value), storage, field);
    EXPECT_EQ(status.code(), Code::corrupt) << hostile.message;
    EXPECT_EQ(status.message(), hostile.message);
  }
}

TEST(MdsEncodingTest, numbers_as_text_are_numbers_and_are_written_as_python_writes_them) {
  struct Case {
    const char* encoding;
    std::string text;
    FieldType type;
  };
  const Case cases[] = {{"str_int", "-5", FieldType::int64},
                        {"str_int", "10000000000000000000000001", FieldType::json},
                        {"str_float", "1.0", FieldType::float64},
                        {"str_float", "0.1", FieldType::float64},
                        {"str_float", "1e-05", FieldType::float64},
                        {"str_float", "1e+16", FieldType::float64},
                        {"str_float", "-inf", FieldType::float64},
                        {"str_float", "nan", FieldType::float64}};
  for (const Case& one : cases) {
    const auto encoding = parse_mds_encoding(one.encoding);
    SampleView storage;
    FieldView field;
    ASSERT_TRUE(decode_mds_value(*encoding, bytes_of(one.text), storage, field).ok()) << one.text;
    EXPECT_EQ(field.type, one.type) << one.text;
    std::vector<std::byte> out;
    ASSERT_TRUE(encode_mds_value(*encoding, field, out).ok()) << one.text;
    EXPECT_EQ(std::string(reinterpret_cast<const char*>(out.data()), out.size()), one.text);
  }
  for (const char* encoding : {"str_int", "str_float"}) {
    SampleView storage;
    FieldView field;
    const std::string text = "a word";
    EXPECT_EQ(
        decode_mds_value(*parse_mds_encoding(encoding), bytes_of(text), storage, field).code(),
        Code::corrupt);
    std::vector<std::byte> out;
    field = {.name = "x", .bytes = bytes_of(text), .type = FieldType::text};
    EXPECT_EQ(encode_mds_value(*parse_mds_encoding(encoding), field, out).code(),
              Code::invalid_argument);
  }
}

TEST(MdsEncodingTest, text_and_json_are_written_only_if_they_can_be_read) {
  struct Case {
    const char* encoding;
    std::string_view value;
    bool is_good;
  };
  const Case cases[] = {
      {"str", "\xc3\xa9", true},
      {"str", "\xff\xfe", false},
      {"str_decimal", "\xff", false},
      {"bytes", "\xff\xfe", true},
      {"jpeg", "\xff\xd8", true},
      {"json", R"({"a": [1, "x"], "a": 2})", true},
      {"json", "not json", false},
      {"json", "", false},
      {"json", "\xef\xbb\xbf{}", false},
      {"json", "\"\xff\"", false},
      // As Python writes them, beyond the standard.
      {"json", R"({"a": NaN, "b": [Infinity, -Infinity], "c": "\ud83d", "d": "\\\" NaN"})", true},
      {"json", R"(["NaN", Nan])", false},
  };
  for (const FieldType type : {FieldType::bytes, FieldType::text, FieldType::json}) {
    for (const Case& value : cases) {
      std::vector<std::byte> out;
      const FieldView field = {.name = "x", .bytes = bytes_of(value.value), .type = type};
      const Status status = encode_mds_value(*parse_mds_encoding(value.encoding), field, out);
      EXPECT_EQ(status.code(), value.is_good ? Code::ok : Code::invalid_argument)
          << value.encoding << " " << value.value;
      EXPECT_EQ(out.size(), value.is_good ? value.value.size() : 0U) << "as it is, or not at all";
    }
  }
}

TEST(MdsEncodingTest, neither_bytes_nor_text_are_numbers_even_if_their_size_is_right) {
  std::vector<std::byte> out;
  for (const FieldType type : {FieldType::bytes, FieldType::text, FieldType::json}) {
    const FieldView eight = {.name = "x", .bytes = bytes_of("12345678"), .type = type};
    const FieldView array = {.name = "x", .bytes = bytes_of("\x08\x04\x01x"), .type = type};
    for (const char* encoding : {"int", "float64", "uint64"})
      EXPECT_EQ(encode_mds_value(*parse_mds_encoding(encoding), eight, out).code(),
                Code::invalid_argument)
          << encoding;
    EXPECT_EQ(encode_mds_value(*parse_mds_encoding("ndarray"), array, out).code(),
              Code::invalid_argument);
    EXPECT_TRUE(out.empty());
  }
}

/// The index of the plain golden shard with a piece of its text replaced.
std::string edited(std::string_view from, std::string_view to) {
  std::string text = testing::kMdsPlainIndex;
  const std::size_t at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(MdsIndexTest, each_wrong_index_names_the_key_at_fault) {
  struct Hostile {
    std::string text;
    Code code;
    const char* message;
  };
  const Hostile cases[] = {
      {edited("\"samples\": 2", "\"samples\": 2, \"samples\": 2"), Code::corrupt, "duplicate key"},
      {edited("}], \"version\": 2", "}], \"version\": 3"), Code::unsupported, "version: 3"},
      {edited("\"int\"", "\"pkl\""), Code::unsupported, "column \"a\": encoding \"pkl\""},
      {edited("[8, null]", "[4, null]"), Code::corrupt,
       "column_sizes[0]: encoding \"int\" takes 8"},
      {edited("[8, null]", "[null, null]"), Code::corrupt, "column_sizes[0]"},
      {edited("[8, null]", "[8, 3]"), Code::corrupt, "column_sizes[1]"},
      {edited("[8, null]", "[8]"), Code::corrupt, "2 column_encodings, 1 column_sizes"},
      {edited("[\"a\", \"b\"]", "[\"a\", \"a\"]"), Code::corrupt, "duplicate column \"a\""},
      {edited("\"mds\"", "\"json\""), Code::unsupported, "format: \"json\""},
      {edited("223", "-223"), Code::corrupt, "raw_data.bytes: negative"},
      {edited("223", "223.5"), Code::corrupt, "raw_data.bytes: not an integer"},
      {edited("223", "4294967296"), Code::corrupt, "is more than 4294967295"},
      {edited("\"samples\": 2", "\"samples\": -1"), Code::corrupt, "samples: negative"},
      {edited("\"samples\": 2, ", ""), Code::corrupt, "shards[0].samples: missing"},
      {edited("shard.00000.mds", "../shard"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "/etc/passwd"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "a/../shard.mds"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "a//shard.mds"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "./shard.mds"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "a/"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "a\\nb/shard.mds"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", ".."), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", "a\\u0000b"), Code::corrupt, "is not a valid file name"},
      {edited("shard.00000.mds", ""), Code::corrupt, "is not a valid file name"},
      {edited("\"hashes\": []", "\"hashes\": [\"md5\"]"), Code::corrupt, "hashes.md5: missing"},
      {edited("\"hashes\": {}", "\"hashes\": {\"md5\": \"\"}"), Code::corrupt, "other algorithms"},
      {edited("\"compression\": null", "\"compression\": \"zstd\""), Code::corrupt, "zip_data"},
      {edited("{\"shards\": [", "{\"shards\": {}, \"x\": ["), Code::corrupt,
       "shards: not an array"},
  };
  for (const Hostile& hostile : cases) {
    const auto parsed = parse_mds_index(hostile.text);
    ASSERT_FALSE(parsed.ok()) << hostile.message;
    EXPECT_EQ(parsed.status().code(), hostile.code) << parsed.status().message();
    EXPECT_NE(parsed.status().message().find(hostile.message), std::string_view::npos)
        << parsed.status().message() << " lacks " << hostile.message;
  }
}

TEST(MdsIndexTest, a_merged_index_names_directories) {
  for (const char* name : {"0/shard.00000.mds", "lang=en/part 1/shard.00000.mds", "a..b/x.mds"}) {
    const auto parsed = parse_mds_index(edited("shard.00000.mds", name));
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->front().raw.basename, name);
  }
}

TEST(MdsIndexTest, a_duplicate_file_is_corrupt) {
  std::vector<MdsShard> shards = *parse_mds_index(testing::kMdsPlainIndex);
  shards.push_back(shards.front());
  const auto parsed = parse_mds_index(format_mds_index(shards));
  EXPECT_EQ(parsed.status().message(), "index.json: shards[1]: duplicate file \"shard.00000.mds\"");
}

TEST(MdsIndexTest, names_are_escaped_as_python_escapes_them) {
  MdsConfig config;
  config.columns = {{"\xC3\xA9\xF0\x9F\x98\x80\"\\\n\x7f", *parse_mds_encoding("str")}};
  EXPECT_NE(format_mds_config(config).find(R"("\u00e9\ud83d\ude00\"\\\n\u007f")"),
            std::string::npos)
      << format_mds_config(config);
}

TEST(MdsCompressionTest, the_names_of_the_peer_are_read_or_refused) {
  EXPECT_EQ(parse_mds_compression("zstd")->level, 3);
  EXPECT_EQ(parse_mds_compression("gz")->level, 9);
  EXPECT_EQ(parse_mds_compression("zstd:22")->level, 22);
  EXPECT_EQ(parse_mds_compression("gz:0")->level, 0);
  for (const char* text : {"br", "br:0", "br:11", "bz2:9", "snappy"}) {
    EXPECT_TRUE(parse_mds_compression(text).ok()) << text;
    EXPECT_EQ(parse_mds_write_compression(text).status().code(), Code::unsupported) << text;
  }
  for (const char* text : {"", "lz4", "zst"})
    EXPECT_EQ(parse_mds_compression(text).status().code(), Code::unsupported) << text;
  for (const char* text :
       {"zstd:", "zstd:0", "zstd:23", "gz:10", "zstd:3x", "gz:-1", "br:12", "bz2:0", "snappy:1"})
    EXPECT_EQ(parse_mds_compression(text).status().code(), Code::corrupt) << text;
}

}  // namespace
}  // namespace stoker
