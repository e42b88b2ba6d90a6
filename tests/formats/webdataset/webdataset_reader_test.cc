#include "formats/webdataset/webdataset_reader.h"

#include <gtest/gtest.h>

#include "conformance/shard_format_support.h"
#include "formats/tar_bytes.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::tar_end;
using testing::tar_member;

struct Read {
  Status status;
  std::vector<std::string> samples;  ///< "key: field=bytes field=bytes"
};

std::string shown(const SampleView& sample) {
  std::string text = std::string(sample.key) + ":";
  for (const auto& [name, bytes] : testing::fields_of(sample)) text += " " + name + "=" + bytes;
  return text;
}

Read read(const std::string& shard, const WebDatasetOptions& options = {}) {
  const std::unique_ptr<ShardReader> reader = make_webdataset_reader(options);
  const std::span<const std::byte> bytes = testing::as_bytes(shard);
  testing::RecordList found;
  Read result{
      .status = testing::scan_shard(*reader, bytes, [] { return 0; }, found), .samples = {}};
  SampleView sample;
  for (const testing::FoundRecord& record : found.records) {
    const Status status =
        reader->split(bytes.subspan(record.range.offset_bytes, record.range.size_bytes),
                      record.range.offset_bytes, sample);
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sample.key, record.key);
    result.samples.push_back(shown(sample));
  }
  return result;
}

using Samples = std::vector<std::string>;

TEST(WebDatasetReaderTest, consecutive_members_of_one_key_are_a_sample) {
  const Read result =
      read(tar_member("a.txt", "1") + tar_member("a.cls", "2") + tar_member("d/a.txt", "3") +
           tar_member("b.seg.png", "4") + tar_member("b.png", "5") + tar_end());
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  EXPECT_EQ(result.samples, (Samples{"a: cls=2 txt=1", "d/a: txt=3", "b: png=5 seg.png=4"}));
}

TEST(WebDatasetReaderTest, a_key_that_comes_again_is_another_sample) {
  EXPECT_EQ(read(tar_member("a.txt", "1") + tar_member("b.txt", "2") + tar_member("a.txt", "3") +
                 tar_end())
                .samples,
            (Samples{"a: txt=1", "b: txt=2", "a: txt=3"}));
}

TEST(WebDatasetReaderTest, ignored_members_do_not_part_a_sample) {
  EXPECT_EQ(read(tar_member("d/", "", '5') + tar_member("a.txt", "1") + tar_member("README", "x") +
                 tar_member("__meta__/m.txt", "x") + tar_member(".hidden", "x") +
                 tar_member("d/", "", '5') + tar_member("a.cls", "2") +
                 tar_member("__index__", "x") + tar_end())
                .samples,
            Samples{"a: cls=2 txt=1"});
}

TEST(WebDatasetReaderTest, extensions_are_turned_into_lower_case) {
  EXPECT_EQ(read(tar_member("A.TXT", "1") + tar_member("A.Seg.PNG", "2") + tar_end()).samples,
            Samples{"A: seg.png=2 txt=1"});
}

TEST(WebDatasetReaderTest, an_extension_twice_in_a_sample_is_corrupt) {
  for (const char* again : {"a.txt", "a.TXT"}) {
    const Read result = read(tar_member("a.txt", "1") + tar_member(again, "2") + tar_end());
    EXPECT_EQ(result.status.code(), Code::corrupt);
    EXPECT_NE(result.status.message().find("offset 1024: member"), std::string::npos)
        << result.status.message();
  }
}

TEST(WebDatasetReaderTest, an_extension_that_webdataset_keeps_for_itself_is_corrupt) {
  EXPECT_EQ(read(tar_member("a.__key__", "1") + tar_end()).status.code(), Code::corrupt);
}

TEST(WebDatasetReaderTest, more_field_names_than_the_limit_are_corrupt) {
  std::string shard;
  for (int i = 0; i < 12000; ++i)
    shard += tar_member("a." + std::string(85, 'x') + std::to_string(100000 + i), "");
  const Read result = read(shard + tar_end());
  EXPECT_EQ(result.status.code(), Code::corrupt);
  EXPECT_NE(result.status.message().find("1 MiB of field names"), std::string::npos);
}

TEST(WebDatasetReaderTest, an_empty_shard_is_corrupt_and_an_empty_archive_is_not) {
  EXPECT_EQ(make_webdataset_reader()->scan(0).status().code(), Code::corrupt);
  EXPECT_TRUE(read(tar_end()).status.ok());
}

TEST(WebDatasetReaderTest, a_missing_end_is_read_on_request) {
  const std::string shard = tar_member("a.txt", "1");
  EXPECT_EQ(read(shard).status.code(), Code::corrupt);
  const Read result = read(shard, {.require_end = false});
  EXPECT_TRUE(result.status.ok());
  EXPECT_EQ(result.samples, Samples{"a: txt=1"});
}

TEST(WebDatasetReaderTest, a_record_that_is_not_one_sample_is_corrupt) {
  const std::unique_ptr<ShardReader> reader = make_webdataset_reader();
  SampleView sample;
  const std::string two = tar_member("a.txt", "1") + tar_member("b.txt", "2");
  for (const std::string& record :
       {std::string(), two, tar_member("README", "x"), tar_member("a.txt", "1") + tar_end(),
        tar_member("a.txt", "1").substr(0, 900), tar_member("a.txt", "") + tar_member("a.txt", "")})
    EXPECT_EQ(reader->split(testing::as_bytes(record), 512, sample).code(), Code::corrupt);
  EXPECT_EQ(reader->split(testing::as_bytes(two), UINT64_MAX, sample).code(), Code::corrupt);
}

TEST(WebDatasetReaderTest, real_archives_read_as_their_writers_meant_them) {
  const auto golden = [](const std::string& name) {
    const std::string shard = testing::contents_of(STOKER_GOLDEN_DIR "/tar/" + name);
    EXPECT_FALSE(shard.empty()) << name;
    const Read result = read(shard);
    EXPECT_TRUE(result.status.ok()) << name << ": " << result.status.message();
    return result.samples;
  };
  std::string deep;
  for (int i = 0; i < 30; ++i) deep += "deep/";
  EXPECT_EQ(golden("webdataset.tar"),
            (Samples{std::string("a: cls=1 seg.bin=\0\1 txt=one", 27),
                     "dir/b: json={\"x\": 2} txt=two", deep + "c: txt=three"}));
  const Samples files = {"a: cls=a.cls txt=a.txt", "dir/b: txt=b.txt", deep + "c: txt=c.txt"};
  for (const char* name : {"gnu_tar_gnu.tar", "gnu_tar_pax.tar", "gnu_tar_ustar.tar"})
    EXPECT_EQ(golden(name), files) << name;
  EXPECT_EQ(golden("gnu_tar_v7.tar"), (Samples{files[0], files[1]}));
  EXPECT_EQ(golden("python_gnu.tar"), (Samples{files[0], files[2]}));
  for (const char* name : {"gnu_tar_gnu_label.tar", "gnu_tar_pax_label.tar"})
    EXPECT_EQ(golden(name), Samples{files[0]}) << name;
}

}  // namespace
}  // namespace stoker
