#include "formats/webdataset/tar_header.h"

#include <gtest/gtest.h>

#include "formats/tar_bytes.h"
#include "formats/webdataset/tar_pax.h"

namespace stoker {
namespace {

using testing::TarBlock;

Result<TarHeader> parse(const std::string& block) {
  return parse_tar_header(testing::as_bytes(block).first<kTarBlockBytes>(), 1536);
}

std::string text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string base256(const std::string& tail, char lead = '\x80') {
  return lead + std::string(11 - tail.size(), lead == '\x80' ? '\0' : '\xff') + tail;
}

TEST(TarHeaderTest, a_ustar_header_gives_name_prefix_size_and_type) {
  const std::string block = TarBlock{.size = "00000001750", .type = '7', .prefix = "p/q"}.bytes();
  const Result<TarHeader> header = parse(block);
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->name, "a.txt");
  EXPECT_EQ(header->prefix, "p/q");
  EXPECT_EQ(header->size_bytes, 1000U);
  EXPECT_EQ(header->type, '7');
}

TEST(TarHeaderTest, names_that_fill_their_field_have_no_nul) {
  const std::string block =
      TarBlock{.name = std::string(100, 'n'), .prefix = std::string(155, 'p')}.bytes();
  const Result<TarHeader> header = parse(block);
  ASSERT_TRUE(header.ok());
  EXPECT_EQ(header->name.size(), 100U);
  EXPECT_EQ(header->prefix.size(), 155U);
}

TEST(TarHeaderTest, sizes_are_read_in_every_way_that_tars_write_them) {
  const auto size_of = [](const std::string& field) {
    const Result<TarHeader> header = parse(TarBlock{.size = field}.bytes());
    EXPECT_TRUE(header.ok()) << header.status().message();
    return header.ok() ? header->size_bytes : 0;
  };
  EXPECT_EQ(size_of("00000000017"), 15U);
  EXPECT_EQ(size_of("         17 "), 15U);
  EXPECT_EQ(size_of("17"), 15U);
  EXPECT_EQ(size_of("17 "), 15U);
  EXPECT_EQ(size_of("000000000017"), 15U);
  EXPECT_EQ(size_of("77777777777"), kTarOctalSizeMax);
  EXPECT_EQ(size_of(base256("\x0f")), 15U);
  EXPECT_EQ(size_of(base256(std::string("\x02\0\0\0\0", 5))), 1ULL << 33);
  EXPECT_EQ(size_of(base256("\x7f\xff\xff\xff\xff\xff\xff\xff")), (1ULL << 63) - 1);
}

TEST(TarHeaderTest, sizes_that_tars_read_differently_are_refused) {
  for (const std::string& field :
       {std::string("            "), std::string(12, '\0'), std::string("-0000000001"),
        std::string("+0000000001"), std::string("0o17"), std::string("1_7"), std::string("1 7"),
        std::string("17\0001", 4), std::string("\00017", 3), std::string("00000000008"),
        std::string("\t17"), base256("\x01", '\xff'), base256("\x80" + std::string(7, '\0')),
        base256(std::string("\x01") + std::string(8, '\0')), std::string(12, '\x81')}) {
    const Result<TarHeader> header = parse(TarBlock{.size = field}.bytes());
    ASSERT_FALSE(header.ok()) << field;
    EXPECT_EQ(header.status().code(), Code::corrupt);
    EXPECT_TRUE(header.status().message().starts_with("offset 1536: size"))
        << header.status().message();
  }
}

TEST(TarHeaderTest, checksums_of_signed_and_of_unsigned_bytes_are_both_right) {
  const std::string block = TarBlock{.name = "\xc3\xa9.txt"}.bytes();
  EXPECT_TRUE(parse(block).ok());
  EXPECT_TRUE(parse(TarBlock::with_checksum(block, /*as_signed=*/true)).ok());
}

TEST(TarHeaderTest, any_other_checksum_is_corrupt) {
  const std::string good = TarBlock{}.bytes();
  for (std::size_t i = 0; i < good.size(); ++i) {
    std::string block = good;
    block[i] ^= 1;
    // The last two bytes of the field end the number, and both NUL and space do.
    if (i == 154 || i == 155) continue;
    EXPECT_EQ(parse(block).status().code(), Code::corrupt) << i;
  }
}

TEST(TarHeaderTest, a_number_that_would_end_the_archive_for_python_is_refused) {
  EXPECT_EQ(parse(TarBlock{.uid = "nobody"}.bytes()).status().code(), Code::corrupt);
  EXPECT_TRUE(parse(TarBlock{.uid = std::string(7, '\0')}.bytes()).ok());
  EXPECT_TRUE(parse(TarBlock{.uid = "\x80\x01\x02\x03\x04\x05\x06\x07"}.bytes()).ok());
}

TEST(TarHeaderTest, a_prefix_counts_in_posix_headers_only) {
  const std::string gnu("ustar  \0", 8);
  const std::string v7(8, '\0');
  EXPECT_TRUE(parse(TarBlock{.magic = gnu}.bytes()).ok());
  EXPECT_TRUE(parse(TarBlock{.magic = v7}.bytes()).ok());
  for (const std::string& magic : {gnu, v7})
    EXPECT_EQ(parse(TarBlock{.magic = magic, .prefix = "p"}.bytes()).status().code(),
              Code::unsupported);
  EXPECT_EQ(parse(TarBlock{.magic = "USTAR"}.bytes()).status().code(), Code::corrupt);
}

TEST(TarHeaderTest, what_is_written_is_read_back) {
  const std::string deep = "directory/" + std::string(120, 'd') + "/";
  for (const std::string& name : {std::string("a"), std::string(100, 'n'), deep + "a",
                                  std::string(155, 'p') + "/" + std::string(100, 'n')}) {
    std::vector<std::byte> out;
    append_tar_headers(name, kTarOctalSizeMax, out);
    ASSERT_EQ(out.size(), kTarBlockBytes) << name;
    const std::string block = text(out);
    const Result<TarHeader> header = parse(block);
    ASSERT_TRUE(header.ok()) << header.status().message();
    const std::string joined = header->prefix.empty()
                                   ? std::string(header->name)
                                   : std::string(header->prefix) + "/" + std::string(header->name);
    EXPECT_EQ(joined, name);
    EXPECT_EQ(header->size_bytes, kTarOctalSizeMax);
  }
}

TEST(TarHeaderTest, what_ustar_cannot_hold_goes_into_a_pax_header) {
  const std::string name(101, 'n');
  std::vector<std::byte> out;
  append_tar_headers(name, kTarOctalSizeMax + 1, out);
  ASSERT_EQ(out.size(), 3 * kTarBlockBytes);
  const std::string block = text(out);
  const Result<TarHeader> extended = parse(block.substr(0, 512));
  ASSERT_TRUE(extended.ok());
  EXPECT_EQ(extended->type, 'x');
  const Result<PaxOverrides> overrides =
      parse_pax(testing::as_bytes(block).subspan(512, extended->size_bytes), 0);
  ASSERT_TRUE(overrides.ok()) << overrides.status().message();
  EXPECT_EQ(overrides->path, name);
  EXPECT_EQ(overrides->size_bytes, kTarOctalSizeMax + 1);
}

TEST(TarHeaderTest, the_length_of_a_pax_record_counts_its_own_digits) {
  for (std::size_t size = 0; size < 1200; ++size) {
    std::string record;
    append_pax_record("k", std::string(size, 'v'), record);
    EXPECT_EQ(record.substr(0, record.find(' ')), std::to_string(record.size()));
  }
}

TEST(TarHeaderTest, padding_that_overflows_is_not_computed) {
  std::uint64_t padded = 0;
  EXPECT_TRUE(tar_padded(0, padded));
  EXPECT_EQ(padded, 0U);
  EXPECT_TRUE(tar_padded(513, padded));
  EXPECT_EQ(padded, 1024U);
  EXPECT_TRUE(tar_padded(UINT64_MAX - 511, padded));
  EXPECT_FALSE(tar_padded(UINT64_MAX - 510, padded));
}

}  // namespace
}  // namespace stoker
