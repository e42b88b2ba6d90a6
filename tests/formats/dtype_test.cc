#include "stoker/dtype.h"

#include <gtest/gtest.h>

#include <string>

namespace stoker {
namespace {

struct KnownDtype {
  Dtype dtype;
  const char* name;
  const char* short_name;
  const char* descr;  // numpy.dtype(short_name).str, NumPy 2.4.6, but for bfloat16
  std::size_t size_bytes;
};

constexpr KnownDtype kKnown[] = {
    {Dtype::uint8, "uint8", "u1", "|u1", 1},     {Dtype::int8, "int8", "i1", "|i1", 1},
    {Dtype::uint16, "uint16", "u2", "<u2", 2},   {Dtype::int16, "int16", "i2", "<i2", 2},
    {Dtype::uint32, "uint32", "u4", "<u4", 4},   {Dtype::int32, "int32", "i4", "<i4", 4},
    {Dtype::uint64, "uint64", "u8", "<u8", 8},   {Dtype::int64, "int64", "i8", "<i8", 8},
    {Dtype::float16, "float16", "f2", "<f2", 2}, {Dtype::float32, "float32", "f4", "<f4", 4},
    {Dtype::float64, "float64", "f8", "<f8", 8}, {Dtype::bfloat16, "bfloat16", "bf16", "<u2", 2},
    {Dtype::boolean, "bool", "b1", "|b1", 1},
};

TEST(DtypeTest, names_descriptions_and_sizes_are_numpys) {
  for (const KnownDtype& known : kKnown) {
    EXPECT_EQ(dtype_name(known.dtype), known.name);
    EXPECT_EQ(dtype_descr(known.dtype), known.descr);
    EXPECT_EQ(dtype_size_bytes(known.dtype), known.size_bytes);
    EXPECT_EQ(*parse_dtype(known.name), known.dtype);
    EXPECT_EQ(*parse_dtype(known.short_name), known.dtype);
  }
}

TEST(DtypeTest, a_description_reads_back_but_for_bfloat16_which_numpy_has_not) {
  for (const KnownDtype& known : kKnown) {
    const Dtype expected = known.dtype == Dtype::bfloat16 ? Dtype::uint16 : known.dtype;
    EXPECT_EQ(*dtype_from_descr(known.descr), expected) << known.name;
  }
  EXPECT_EQ(*dtype_from_descr("<u1"), Dtype::uint8);
}

TEST(DtypeTest, an_unknown_name_is_answered_with_all_names) {
  for (const char* name : {"", "int", "float", "UINT16", "<u2", "u3", "bfloat", "uint16 "}) {
    const Status status = parse_dtype(name).status();
    EXPECT_EQ(status.code(), Code::invalid_argument) << name;
    EXPECT_NE(status.message().find("uint16, int16"), std::string::npos) << status.message();
  }
}

TEST(DtypeTest, what_is_not_read_says_why) {
  const struct {
    const char* descr;
    const char* reason;
  } kRefused[] = {
      {"|O", "pickle"},
      {"<O8", "pickle"},
      {">i4", "big-endian; save it again as '<i4'"},
      {"<c8", "not one of"},
      {"<U5", "not one of"},
      {"|S3", "not one of"},
      {"|V2", "not one of"},
      {"<M8[ns]", "not one of"},
      {"", "not one of"},
      {"<", "not one of"},
      {"=i4", "not one of"},
      {"|i4", "not one of"},
      {"<i16", "not one of"},
      {"<bf16", "not one of"},
      {"<f16", "not one of"},
  };
  for (const auto& refused : kRefused) {
    const Status status = dtype_from_descr(refused.descr).status();
    EXPECT_EQ(status.code(), Code::unsupported) << refused.descr;
    EXPECT_NE(status.message().find(refused.reason), std::string::npos) << status.message();
  }
}

TEST(DtypeTest, a_message_quotes_hostile_text_short_and_printable) {
  const std::string hostile = "\n\x1b[31m" + std::string(10'000, 'x');
  for (const Status& status : {parse_dtype(hostile).status(), dtype_from_descr(hostile).status()}) {
    EXPECT_LT(status.message().size(), 300U);
    for (const char c : status.message()) EXPECT_TRUE(c >= ' ' && c <= '~');
  }
}

}  // namespace
}  // namespace stoker
