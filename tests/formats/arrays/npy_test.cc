#include "formats/arrays/npy.h"

#include <gtest/gtest.h>

#include <string>

#include "support/temp_dir.h"

namespace stoker {
namespace {

std::string golden(const std::string& name) {
  std::string text = testing::contents_of(STOKER_GOLDEN_DIR "/tokens/" + name);
  EXPECT_FALSE(text.empty()) << name;
  return text;
}

Result<NpyArray> parse(const std::string& file) {
  const std::vector<char> copy(file.begin(), file.end());  // exactly as large, for the sanitizer
  return parse_npy(std::as_bytes(std::span(copy)), file.size());
}

/// A file of version 1 around that header, with `data_bytes` zeros.
std::string with_header(const std::string& header, std::size_t data_bytes = 0) {
  return std::string("\x93NUMPY\x01\x00", 8) + static_cast<char>(header.size() & 0xFF) +
         static_cast<char>(header.size() >> 8) + header + std::string(data_bytes, '\0');
}

TEST(NpyTest, what_numpy_wrote_reads_in_every_version) {
  const Result<NpyArray> two = parse(golden("int32_2d.npy"));
  ASSERT_TRUE(two.ok()) << two.status().message();
  EXPECT_EQ(two->dtype, Dtype::int32);
  EXPECT_EQ(two->shape, (std::vector<std::uint64_t>{2, 3}));
  EXPECT_EQ(two->element_count, 6U);
  EXPECT_EQ(two->data_offset_bytes, 128U);
  const Result<NpyArray> one = parse(golden("uint16_1d_v2.npy"));
  ASSERT_TRUE(one.ok()) << one.status().message();
  EXPECT_EQ(one->dtype, Dtype::uint16);
  EXPECT_EQ(one->shape, std::vector<std::uint64_t>{3});
  const Result<NpyArray> scalar = parse(golden("float64_0d_v3.npy"));
  ASSERT_TRUE(scalar.ok()) << scalar.status().message();
  EXPECT_TRUE(scalar->shape.empty());
  EXPECT_EQ(scalar->element_count, 1U);
}

TEST(NpyTest, the_header_we_write_is_numpys) {
  const std::vector<std::byte> head =
      *make_npy_head(Dtype::int32, std::array<std::uint64_t, 2>{2, 3});
  const std::string numpy = golden("int32_2d.npy").substr(0, 128);
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(head.data()), head.size()), numpy);
}

TEST(NpyTest, every_dtype_and_shape_reads_back_at_a_multiple_of_64) {
  const std::vector<std::uint64_t> kShapes[] = {{},
                                                {0},
                                                {1},
                                                {7},
                                                {0, 5},
                                                {5, 0},
                                                {2, 3, 4},
                                                {1, 1, 1, 1, 1, 1, 1, 1, 3},
                                                std::vector<std::uint64_t>(64, 1),
                                                {0, std::uint64_t{1} << 60, 1000}};
  for (int dtype = 0; dtype <= static_cast<int>(Dtype::boolean); ++dtype) {
    for (const std::vector<std::uint64_t>& shape : kShapes) {
      const std::vector<std::byte> head = *make_npy_head(static_cast<Dtype>(dtype), shape);
      EXPECT_EQ(head.size() % 64, 0U);
      std::uint64_t count = 1;
      for (const std::uint64_t dimension : shape) count *= dimension;
      const Result<NpyArray> array =
          parse_npy(head, head.size() + count * dtype_size_bytes(static_cast<Dtype>(dtype)));
      ASSERT_TRUE(array.ok()) << array.status().message();
      EXPECT_EQ(array->shape, shape);
      EXPECT_EQ(array->element_count, count);
      EXPECT_EQ(dtype_descr(array->dtype), dtype_descr(static_cast<Dtype>(dtype)));
    }
  }
}

TEST(NpyTest, what_cannot_be_written_is_refused) {
  EXPECT_EQ(make_npy_head(Dtype::int8, std::vector<std::uint64_t>(65, 1)).status().code(),
            Code::invalid_argument);
  const std::uint64_t big = std::uint64_t{1} << 60;
  EXPECT_EQ(make_npy_head(Dtype::int64, std::array{big}).status().code(), Code::invalid_argument);
  EXPECT_EQ(make_npy_head(Dtype::int8, std::array{big, big}).status().code(),
            Code::invalid_argument);
}

TEST(NpyTest, other_writers_spacing_quotes_and_order_are_read) {
  for (const char* header : {
           "{'descr':'<i4','fortran_order':False,'shape':(2,)}",
           "{\"shape\": (2 , ), \"fortran_order\": False, \"descr\": \"<i4\"}\n",
           " {'shape': (1, 2,), 'descr': '<i4', 'fortran_order': False, } \n\n",
       }) {
    const Result<NpyArray> array = parse(with_header(header, 8));
    EXPECT_TRUE(array.ok()) << header << ": " << array.status().message();
  }
}

TEST(NpyTest, what_is_refused_on_purpose_names_the_way_out) {
  const struct {
    const char* file;
    const char* message;
  } kRefused[] = {{"objects.npy", "holds Python objects, that is a pickle"},
                  {"fortran.npy", "numpy.ascontiguousarray"},
                  {"big_endian.npy", "big-endian; save it again as '<i4'"},
                  {"structures.npy", "save each of its fields as an array"}};
  for (const auto& refused : kRefused) {
    const Status status = parse(golden(refused.file)).status();
    EXPECT_EQ(status.code(), Code::unsupported) << refused.file;
    EXPECT_NE(status.message().find(refused.message), std::string::npos) << status.message();
  }
}

struct Hostile {
  const char* reason;
  std::string file;
  const char* message;
  Code code = Code::corrupt;
};

std::string dict(const std::string& shape) {
  return "{'descr': '<i4', 'fortran_order': False, 'shape': " + shape + "}";
}

TEST(NpyTest, each_way_to_be_wrong_has_its_message) {
  const Hostile kHostile[] = {
      {"nothing", "", "offset 0: the file does not begin with"},
      {"a zip (.npz)", "PK\x03\x04........", "offset 0: the file does not begin with"},
      {"no version", "\x93NUMPY\x01", "offset 6: the file ends in its version"},
      {"version 4", std::string("\x93NUMPY\x04\x00\x00\x00", 10), "version 4.0", Code::unsupported},
      {"version 1.1", std::string("\x93NUMPY\x01\x01\x00\x00", 10), "version 1.1",
       Code::unsupported},
      {"no length", std::string("\x93NUMPY\x01\x00\x10", 9), "offset 8: the file ends in"},
      {"long header", std::string("\x93NUMPY\x01\x00\xff\xff{", 11),
       "a header of 65535 bytes in a"},
      {"header of 4 GiB", std::string("\x93NUMPY\x02\x00\xff\xff\xff\xff{", 13),
       "a header of 4294967295 bytes in a file of 13"},
      {"empty header", with_header(""), "needs a '{'"},
      {"not a dict", with_header("[1, 2]"), "needs a '{'"},
      {"unfinished", with_header("{'descr'"), "needs a ':'"},
      {"string without end", with_header("{'descr"), "a string without an end"},
      {"escape", with_header("{'de\\x73cr': '<i4'}"), "a string with an escape"},
      {"no descr", with_header("{'fortran_order': False, 'shape': (0,)}"), "has no 'descr'"},
      {"no order", with_header("{'descr': '<i4', 'shape': (0,)}"), "has no 'fortran_order'"},
      {"no shape", with_header("{'descr': '<i4', 'fortran_order': False}"), "has no 'shape'"},
      {"twice", with_header("{'shape': (0,), 'shape': (1,)}"), "duplicate key 'shape'"},
      {"unknown key", with_header("{'x': 1}"), "a key that is none of"},
      {"a call", with_header(dict("__import__('os')")), "needs a '('"},
      {"an expression", with_header(dict("(1+1,)")), "the shape needs a ',' or ')'"},
      {"a list", with_header(dict("[2]")), "needs a '('"},
      {"a number", with_header(dict("2")), "needs a '('"},
      {"no tuple", with_header(dict("(2)"), 8), "the shape is a number, not a tuple"},
      {"negative", with_header(dict("(-1,)")), "not a whole number from 0 on"},
      {"a float", with_header(dict("(1.0,)")), "the shape needs a ',' or ')'"},
      {"two commas", with_header(dict("(1,,)")), "not a whole number from 0 on"},
      {"octal", with_header(dict("(010,)")), "begins with 0"},
      {"past 64 bits", with_header(dict("(18446744073709551616,)")), "does not fit 64 bits"},
      {"product past 63 bits", with_header(dict("(4611686018427387904, 8)")), "63 bits"},
      {"bytes past 63 bits", with_header(dict("(4611686018427387904,)")), "63 bits"},
      {"65 dimensions",
       with_header(dict("(1" +
                        [] {
                          std::string more;
                          for (int i = 0; i < 64; ++i) more += ",1";
                          return more;
                        }() +
                        ")"),
                   4),
       "more than 64 dimensions"},
      {"order is a number", with_header("{'fortran_order': 0}"), "neither True nor False"},
      {"code after the dict", with_header(dict("(0,)") + "; import os"), "something follows"},
      {"a zero byte", with_header(dict("(0,)") + std::string(1, '\0')), "something follows"},
      {"truncated data", with_header(dict("(3,)"), 11), "the array has 12 bytes, the file has 11"},
      {"two arrays", with_header(dict("(3,)"), 13), "the array has 12 bytes, the file has 13"},
      {"oversized", with_header(dict("(1000000000000,)"), 4), "the array has 4000000000000 bytes"},
  };
  for (const Hostile& hostile : kHostile) {
    const Status status = parse(hostile.file).status();
    EXPECT_EQ(status.code(), hostile.code) << hostile.reason;
    EXPECT_NE(status.message().find(hostile.message), std::string::npos)
        << hostile.reason << ": " << status.message();
  }
}

TEST(NpyTest, a_header_larger_than_any_needs_is_refused_unread) {
  std::string file("\x93NUMPY\x02\x00\x01\x00\x01\x00", 12);  // 65,537 bytes
  file += dict("(0,)") + std::string(65'537, ' ');
  EXPECT_EQ(parse(file).status().code(), Code::unsupported);
}

TEST(NpyTest, a_head_too_short_is_the_callers_mistake) {
  const std::string file = golden("int32_2d.npy");
  const auto head = std::as_bytes(std::span(file)).first(20);
  EXPECT_EQ(parse_npy(head, file.size()).status().code(), Code::invalid_argument);
}

TEST(NpyTest, every_truncation_is_an_error_and_no_flipped_bit_harms) {
  const std::string whole = golden("int32_2d.npy");
  for (std::size_t size = 0; size < whole.size(); ++size)
    EXPECT_EQ(parse(whole.substr(0, size)).status().code(), Code::corrupt) << size;
  for (std::size_t bit = 0; bit < 128 * 8; ++bit) {
    std::string file = whole;
    file[bit / 8] = static_cast<char>(file[bit / 8] ^ (1 << bit % 8));
    if (const Result<NpyArray> array = parse(file); array.ok()) {  // '<i4' may be '<u4' now
      EXPECT_EQ(array->element_count * dtype_size_bytes(array->dtype), 24U) << bit;
    }
  }
}

}  // namespace
}  // namespace stoker
