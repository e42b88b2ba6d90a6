#include "formats/tfrecord/tf_example.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <string>

#include "base/hex.h"

namespace stoker {
namespace {

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok()) << hex;
  return bytes;
}

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

template <typename Number>
std::span<const std::byte> bytes_of(const std::vector<Number>& numbers) {
  return std::as_bytes(std::span(numbers));
}

std::string hex_of(const FieldView* field) {
  return field ? format_hex(field->bytes) : "none";
}

/// The number-delimited field of `value`, for building Examples by hand.
std::string delimited(int number, const std::string& value) {
  std::vector<std::byte> out;
  put_delimited(out, static_cast<std::uint32_t>(number), bytes_of(value));
  return {reinterpret_cast<const char*>(out.data()), out.size()};
}
std::string entry(const std::string& name, const std::string& feature) {
  return delimited(1, delimited(1, name) + delimited(2, feature));
}

struct Split {
  std::vector<std::byte> bytes;
  SampleView sample;
  Status status;

  explicit Split(const std::string& example)
      : bytes(bytes_of(example).begin(), bytes_of(example).end()) {
    status = split_example(bytes, 0, sample);
  }
};

TEST(TfExampleTest, the_known_example_reads_and_writes) {
  const std::vector<std::byte> known = from_hex("0a0c0a0a0a017812051a030a0107");  // {"x": [7]}
  SampleView sample;
  ASSERT_TRUE(split_example(known, 0, sample).ok());
  ASSERT_EQ(sample.fields.size(), 1U);
  EXPECT_EQ(sample.fields[0].name, "x");
  EXPECT_EQ(sample.fields[0].type, FieldType::int64);
  EXPECT_EQ(hex_of(sample.find("x")), "0700000000000000");
  std::vector<std::byte> written;
  ASSERT_TRUE(put_example(sample, {}, written).ok());
  EXPECT_EQ(format_hex(written), format_hex(known));
}

TEST(TfExampleTest, one_value_and_packed_floats_are_views_of_the_record) {
  const Split split(delimited(1, entry("b", delimited(1, delimited(1, "value"))) +
                                     entry("f", delimited(2, delimited(1, "12345678")))));
  ASSERT_TRUE(split.status.ok()) << split.status.message();
  for (const FieldView& field : split.sample.fields) {
    EXPECT_GE(field.bytes.data(), split.bytes.data());
    EXPECT_LE(field.bytes.data() + field.bytes.size(), split.bytes.data() + split.bytes.size());
  }
  EXPECT_TRUE(split.sample.storage.empty());
  EXPECT_EQ(split.sample.find("f")->type, FieldType::float32);
}

TEST(TfExampleTest, several_values_are_an_encoded_list_that_a_reader_walks) {
  const std::string list = delimited(1, "a") + delimited(1, "") + delimited(1, "ccc");
  const Split split(delimited(1, entry("many", delimited(1, list))));
  ASSERT_TRUE(split.status.ok());
  const FieldView& field = *split.sample.find("many");
  EXPECT_EQ(field.type, FieldType::array);
  EXPECT_EQ(field.dtype, kBytesListDtype);
  ASSERT_EQ(field.shape.size(), 1U);
  EXPECT_EQ(field.shape[0], 3U);
  BytesListReader reader(field.bytes);
  std::vector<std::string> values;
  for (std::span<const std::byte> value; *reader.next(value);)
    values.emplace_back(reinterpret_cast<const char*>(value.data()), value.size());
  EXPECT_EQ(values, (std::vector<std::string>{"a", "", "ccc"}));
}

TEST(TfExampleTest, a_list_with_fields_of_the_future_is_handed_on_without_them) {
  const std::string list = delimited(1, "a") + delimited(5, "future") + delimited(1, "b");
  const Split split(delimited(1, entry("many", delimited(1, list))));
  ASSERT_TRUE(split.status.ok());
  EXPECT_EQ(hex_of(split.sample.find("many")), "0a01610a0162");
}

TEST(TfExampleTest, merging_is_protobufs) {
  const auto one = [](const char* value) { return delimited(1, delimited(1, value)); };
  // Features in two parts; a name twice: the last value, also when it is unset.
  const Split split(
      delimited(1, entry("a", one("1")) + entry("b", one("1")) + entry("c", one("1"))) +
      delimited(1, entry("b", one("2")) + entry("c", "")));
  ASSERT_TRUE(split.status.ok());
  ASSERT_EQ(split.sample.fields.size(), 2U);
  EXPECT_EQ(hex_of(split.sample.find("a")), "31");
  EXPECT_EQ(hex_of(split.sample.find("b")), "32");
  // An entry whose value comes in two parts, and one whose oneof is set to another kind.
  const std::string two_parts =
      delimited(1, delimited(1, "n") + delimited(2, one("x")) + delimited(2, one("y")));
  const Split parts(delimited(1, two_parts + entry("k", one("x") + delimited(3, "\x08\x05"))));
  ASSERT_TRUE(parts.status.ok());
  EXPECT_EQ(hex_of(parts.sample.find("n")), "0a01780a0179");
  EXPECT_EQ(hex_of(parts.sample.find("k")), "0500000000000000");
}

struct Hostile {
  const char* reason;
  std::string example;
  const char* message;
  Code code = Code::corrupt;
};

TEST(TfExampleTest, each_way_to_be_wrong_has_its_message) {
  const Hostile kHostile[] = {
      {"text", "hello", "group"},
      {"features is a number", std::string("\x08\x01", 2), "Example.features has wire type 0"},
      {"feature is a number", delimited(1, "\x08\x01"), "Features.feature has wire type 0"},
      {"name is a number", delimited(1, delimited(1, "\x08\x01")),
       "a feature's entry has wire type"},
      {"name is not UTF-8", delimited(1, entry("\xff", "")),
       "offset 4: a feature's name is not UTF-8"},
      {"list is a number", delimited(1, entry("a", "\x08\x01")),
       "a feature's list has wire type 0"},
      {"bytes are a number", delimited(1, entry("a", delimited(1, "\x08\x01"))),
       "a bytes value has wire type 0"},
      {"float is a varint", delimited(1, entry("a", delimited(2, "\x08\x01"))),
       "a float has wire type 0"},
      {"half a float", delimited(1, entry("a", delimited(2, delimited(1, "12345")))),
       "packed floats of 5 bytes"},
      {"integer is a fixed32",
       delimited(1, entry("a", delimited(3,
                                         "\x0d"
                                         "1234"))),
       "an integer has wire type 5"},
      {"half a varint", delimited(1, entry("a", delimited(3, delimited(1, "\x01\x80")))),
       "a varint is cut off"},
      {"an integer of 65 bits",
       delimited(1, entry("a", delimited(3, delimited(1, std::string(9, '\xff') + "\x02")))),
       "a varint has more than 64 bits"},
      {"entry longer than the map", "\x0a\x02\x0a\x7f", "a value of 127 bytes in field 1"},
      {"a SequenceExample", delimited(1, entry("a", "")) + delimited(2, ""),
       "a SequenceExample, of which only the context would be read; read the records raw",
       Code::unsupported},
  };
  for (const Hostile& hostile : kHostile) {
    const Split split(hostile.example);
    EXPECT_EQ(split.status.code(), hostile.code) << hostile.reason;
    EXPECT_NE(split.status.message().find(hostile.message), std::string::npos)
        << hostile.reason << ": " << split.status.message();
    EXPECT_TRUE(split.status.message().starts_with("offset ")) << split.status.message();
  }
}

TEST(TfExampleTest, too_many_features_are_refused_before_they_cost_memory) {
  std::string features;
  for (std::size_t i = 0; i <= kExampleFeaturesMax; ++i) features += delimited(1, "");
  const Split split(delimited(1, features));
  EXPECT_EQ(split.status.code(), Code::unsupported);
}

TEST(TfExampleTest, a_list_in_a_million_parts_takes_linear_time_and_memory) {
  std::string parts;
  for (int i = 0; i < 500'000; ++i) parts += delimited(1, delimited(1, "x"));
  const Split split(delimited(1, entry("a", parts)));
  ASSERT_TRUE(split.status.ok());
  EXPECT_EQ(split.sample.find("a")->shape[0], 500'000U);
}

TEST(TfExampleTest, what_an_example_cannot_hold_is_refused_with_the_way_out) {
  const auto refuse = [](const FieldView& field, std::string_view message) {
    SampleView sample;
    sample.fields = {field};
    std::vector<std::byte> out = from_hex("aabb");
    const Status status = put_example(sample, {}, out);
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find(message), std::string::npos) << status.message();
    EXPECT_EQ(format_hex(out), "aabb");
  };
  const std::string seven = "1234567";
  refuse({.name = "d", .bytes = {}, .type = FieldType::float64}, "convert it to float32");
  refuse({.name = "a", .bytes = {}, .type = FieldType::array, .dtype = "<f4"},
         "write its bytes, and its shape");
  refuse({.name = "i", .bytes = bytes_of(seven), .type = FieldType::int64}, "not whole");
  refuse({.name = "f", .bytes = bytes_of(seven), .type = FieldType::float32}, "not whole");
  refuse({.name = "\xff", .bytes = {}}, "not UTF-8");
  refuse(
      {.name = "l", .bytes = bytes_of(seven), .type = FieldType::array, .dtype = kBytesListDtype},
      "not a BytesList");
  SampleView twice;
  twice.fields = {
      {.name = "a", .bytes = {}}, {.name = "b", .bytes = {}}, {.name = "a", .bytes = {}}};
  std::vector<std::byte> out;
  EXPECT_EQ(put_example(twice, {}, out).message(), "field 'a': duplicate name");
}

TEST(TfExampleTest, the_key_goes_into_the_field_named_for_it) {
  SampleView sample;
  sample.key = "0001";
  sample.fields = {{.name = "z", .bytes = {}}};
  std::vector<std::byte> out;
  ASSERT_TRUE(put_example(sample, "__key__", out).ok());
  SampleView read;
  ASSERT_TRUE(split_example(out, 0, read).ok());
  EXPECT_EQ(read.key, "");
  EXPECT_EQ(hex_of(read.find("__key__")), "30303031");
}

/// A sample of random fields; `owned` holds their bytes.
SampleView random_sample(std::mt19937_64& random, std::deque<std::string>& owned) {
  SampleView sample;
  const std::size_t count = random() % 6;
  for (std::size_t i = 0; i < count; ++i) {
    FieldView field{.name = owned.emplace_back("field" + std::to_string(i)), .bytes = {}};
    std::string& bytes = owned.emplace_back();
    const std::size_t items = random() % 20;
    switch (random() % 4) {
      case 0: field.type = FieldType::bytes; break;
      case 1: field.type = FieldType::float32; break;
      case 2: field.type = FieldType::int64; break;
      default: field.type = FieldType::array; field.dtype = kBytesListDtype;
    }
    for (std::size_t k = 0; k < items; ++k) {
      const std::uint64_t number = random() >> random() % 64;
      const auto raw = std::string(reinterpret_cast<const char*>(&number), sizeof number);
      if (field.type == FieldType::array)
        bytes += delimited(1, raw.substr(0, number % 9));
      else
        bytes += field.type == FieldType::float32 ? raw.substr(0, 4) : raw;
    }
    field.bytes = bytes_of(bytes);
    if (field.type == FieldType::array && items == 1) continue;  // one value comes back as bytes
    sample.fields.push_back(field);
  }
  return sample;
}

TEST(TfExampleTest, random_samples_read_back_as_they_were_written) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 500; ++round) {
    std::deque<std::string> owned;
    const SampleView sample = random_sample(random, owned);
    std::vector<std::byte> bytes;
    ASSERT_TRUE(put_example(sample, {}, bytes).ok());
    SampleView read;
    ASSERT_TRUE(split_example(bytes, 0, read).ok());
    ASSERT_EQ(read.fields.size(), sample.fields.size());
    for (std::size_t i = 0; i < read.fields.size(); ++i) {
      EXPECT_EQ(read.fields[i].name, sample.fields[i].name);
      EXPECT_EQ(read.fields[i].type, sample.fields[i].type);
      EXPECT_EQ(format_hex(read.fields[i].bytes), format_hex(sample.fields[i].bytes));
    }
  }
}

TEST(TfExampleTest, damaged_examples_are_read_without_harm) {
  std::mt19937_64 random(8);
  for (int round = 0; round < 2000; ++round) {
    std::deque<std::string> owned;
    std::vector<std::byte> bytes;
    ASSERT_TRUE(put_example(random_sample(random, owned), {}, bytes).ok());
    for (int k = 0; k < 3; ++k) bytes[random() % bytes.size()] ^= std::byte{1} << random() % 8;
    bytes.resize(bytes.size() - random() % 3 % bytes.size());
    bytes.shrink_to_fit();
    SampleView read;
    const Status status = split_example(bytes, 0, read);
    EXPECT_TRUE(status.ok() || !status.message().empty());
  }
}

}  // namespace
}  // namespace stoker
