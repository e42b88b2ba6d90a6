#include "formats/tfrecord/protobuf_wire.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>

#include "base/hex.h"

namespace stoker {
namespace {

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok()) << hex;
  return bytes;
}

struct KnownVarint {
  std::uint64_t value;
  const char* hex;
};

// google.protobuf.internal.encoder._VarintBytes, protobuf 7.36.2.
constexpr KnownVarint kVarints[] = {
    {0, "00"},
    {1, "01"},
    {127, "7f"},
    {128, "8001"},
    {300, "ac02"},
    {16'383, "ff7f"},
    {16'384, "808001"},
    {std::uint64_t{1} << 63, "80808080808080808001"},
    {std::numeric_limits<std::uint64_t>::max(), "ffffffffffffffffff01"},
};

TEST(ProtobufWireTest, varints_are_protobufs_both_ways) {
  for (const KnownVarint& known : kVarints) {
    std::vector<std::byte> bytes;
    put_varint(bytes, known.value);
    EXPECT_EQ(format_hex(bytes), known.hex);
    EXPECT_EQ(varint_size_bytes(known.value), bytes.size());
    std::uint64_t value = 0;
    WireReader reader(bytes);
    ASSERT_TRUE(reader.next_varint(value).ok());
    EXPECT_EQ(value, known.value);
    EXPECT_TRUE(reader.done());
  }
}

TEST(ProtobufWireTest, a_varint_with_needless_zeros_is_read_as_protobuf_does) {
  std::uint64_t value = 1;
  const std::vector<std::byte> bytes = from_hex("8000");
  ASSERT_TRUE(WireReader(bytes).next_varint(value).ok());
  EXPECT_EQ(value, 0U);
}

TEST(ProtobufWireTest, the_size_of_a_varint_changes_at_every_seventh_bit) {
  for (unsigned bits = 1; bits < 64; ++bits) {
    for (const std::uint64_t value : {std::uint64_t{1} << bits, (std::uint64_t{1} << bits) - 1}) {
      std::vector<std::byte> bytes;
      put_varint(bytes, value);
      EXPECT_EQ(varint_size_bytes(value), bytes.size()) << value;
    }
  }
}

TEST(ProtobufWireTest, every_wire_type_is_read_with_its_offset) {
  // 1: varint 150, 2: "hi", 3: fixed32 1, 4: fixed64 2, 16: varint 0
  const std::vector<std::byte> message = from_hex(
      "089601"
      "12026869"
      "1d01000000"
      "210200000000000000"
      "800100");
  WireReader reader(message, 1000);
  WireField field;
  ASSERT_TRUE(reader.next(field).ok());
  EXPECT_EQ(field.number, 1U);
  EXPECT_EQ(field.varint, 150U);
  EXPECT_EQ(field.offset_bytes, 1000U);
  ASSERT_TRUE(reader.next(field).ok());
  EXPECT_EQ(field.type, WireType::delimited);
  EXPECT_EQ(format_hex(field.bytes), "6869");
  EXPECT_EQ(field.value_offset_bytes, 1005U);
  ASSERT_TRUE(reader.next(field).ok());
  EXPECT_EQ(field.type, WireType::fixed32);
  EXPECT_EQ(format_hex(field.bytes), "01000000");
  ASSERT_TRUE(reader.next(field).ok());
  EXPECT_EQ(field.type, WireType::fixed64);
  EXPECT_EQ(format_hex(field.bytes), "0200000000000000");
  ASSERT_TRUE(reader.next(field).ok());
  EXPECT_EQ(field.number, 16U);
  EXPECT_TRUE(reader.done());
}

struct Hostile {
  const char* reason;
  const char* hex;
  const char* message;
};

constexpr Hostile kHostile[] = {
    {"tag cut off", "80", "offset 0: a varint is cut off"},
    {"varint cut off", "0880", "offset 1: a varint is cut off"},
    {"no varint", "08", "offset 1: a varint is cut off"},
    {"65 bits", "08ffffffffffffffffff02", "offset 1: a varint has more than 64 bits"},
    {"11 bytes", "088080808080808080808000", "offset 1: a varint has more than 64 bits"},
    {"tag past 32 bits", "888080808001", "offset 0: a field number does not fit 29 bits"},
    {"number 0", "0000", "offset 0: field number 0"},
    {"group", "0b0c", "offset 0: a group, which no Example holds"},
    {"end of a group", "0c", "offset 0: a group, which no Example holds"},
    {"wire type 6", "0e", "offset 0: wire type 6"},
    {"wire type 7", "0f", "offset 0: wire type 7"},
    {"value past the end", "0a0361",
     "offset 0: a value of 3 bytes in field 1, but its message has only 1 left"},
    {"value of 2^64 - 1 bytes", "0affffffffffffffffff01",
     "offset 0: a value of 18446744073709551615 bytes in field 1, but its message has only 0 left"},
    {"fixed32 cut off", "0d000000",
     "offset 0: a fixed32 of 4 bytes in field 1, but its message has only 3 left"},
    {"fixed64 cut off", "0900000000000000",
     "offset 0: a fixed64 of 8 bytes in field 1, but its message has only 7 left"},
};

TEST(ProtobufWireTest, each_way_to_be_wrong_has_its_message) {
  for (const Hostile& hostile : kHostile) {
    const std::vector<std::byte> bytes = from_hex(hostile.hex);
    WireField field;
    const Status status = WireReader(bytes).next(field);
    EXPECT_EQ(status.code(), Code::corrupt) << hostile.reason;
    EXPECT_EQ(status.message(), hostile.message) << hostile.reason;
  }
}

}  // namespace
}  // namespace stoker
