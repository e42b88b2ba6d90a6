#include "formats/webdataset/webdataset_writer.h"

#include <gtest/gtest.h>

#include "base/checksum.h"
#include "conformance/shard_format_support.h"
#include "formats/tar_bytes.h"

namespace stoker {
namespace {

using testing::MemorySink;
using testing::OwnedSample;

std::string write(const std::vector<OwnedSample>& samples) {
  MemorySink sink;
  const std::unique_ptr<ShardWriter> writer = make_webdataset_writer(sink);
  for (const OwnedSample& sample : samples) EXPECT_TRUE(writer->append(sample.view()).ok());
  EXPECT_TRUE(writer->finish().ok());
  return {reinterpret_cast<const char*>(sink.bytes.data()), sink.bytes.size()};
}

TEST(WebDatasetWriterTest, a_shard_has_these_bytes) {
  // The header of "a.txt", 3 bytes: checked by GNU tar 1.34 and Python's tarfile, then frozen.
  std::string header(512, '\0');
  header.replace(0, 5, "a.txt");
  header.replace(100, 7, "0000444");
  header.replace(108, 7, "0000000");
  header.replace(116, 7, "0000000");
  header.replace(124, 11, "00000000003");
  header.replace(136, 11, "00000000000");
  header.replace(148, 8, std::string("010155\0 ", 8));
  header[156] = '0';
  header.replace(257, 8, std::string("ustar\00000", 8));
  header.replace(329, 7, "0000000");
  header.replace(337, 7, "0000000");
  const std::string shard = write({{"a", {{"txt", "one"}}}});
  EXPECT_EQ(shard.substr(0, 512), header);
  EXPECT_EQ(shard.substr(512, 512), testing::tar_pad("one"));
  EXPECT_EQ(shard.substr(1024), std::string(10240 - 1024, '\0'));
}

TEST(WebDatasetWriterTest, fields_are_written_in_the_order_of_their_names) {
  const std::string shard = write({{"a", {{"txt", ""}, {"cls", ""}, {"seg.png", ""}}}});
  EXPECT_EQ(shard.substr(0, 5), "a.cls");
  EXPECT_EQ(shard.substr(512, 9), "a.seg.png");
  EXPECT_EQ(shard.substr(1024, 5), "a.txt");
}

TEST(WebDatasetWriterTest, a_name_beyond_ustar_gets_a_pax_header_of_its_own) {
  const std::string key(120, 'k');
  const std::string shard = write({{key, {{"txt", "one"}}}});
  EXPECT_EQ(shard.substr(0, 14), "././@PaxHeader");
  EXPECT_EQ(shard[156], 'x');
  EXPECT_EQ(shard.substr(512, 134), "134 path=" + key + ".txt\n");
  EXPECT_EQ(shard[1024 + 156], '0');
}

TEST(WebDatasetWriterTest, a_shard_is_a_whole_number_of_tar_records) {
  for (const std::size_t size : {0U, 8192U, 8704U, 8705U, 9216U, 20000U}) {
    EXPECT_EQ(write({{"a", {{"bin", std::string(size, 'x')}}}}).size() % 10240, 0U);
  }
}

TEST(WebDatasetWriterTest, the_bytes_of_a_shard_never_change) {
  std::string key;
  for (int i = 0; i < 40; ++i) key += "dir/";
  const std::string shard =
      write({{"a", {{"txt", "one"}, {"cls", "7"}}}, {key + "b", {{"txt", "two"}}}});
  EXPECT_EQ(xxh3_128(testing::as_bytes(shard)).hex(), "9150c94106fa1b3723b456da2ae798e9");
}

}  // namespace
}  // namespace stoker
