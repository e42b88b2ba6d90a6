#include "formats/mds/mds_shard.h"

#include <gtest/gtest.h>

#include <cstring>

#include "base/hex.h"
#include "conformance/shard_format_support.h"
#include "formats/mds/mds_compression.h"
#include "formats/mds/mds_hash.h"
#include "formats/mds/mds_writer.h"
#include "golden/mds/mds_golden.h"

namespace stoker::testing {
namespace {

using Bytes = std::vector<std::byte>;

Bytes from_hex(std::string_view hex) {
  Bytes bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok());
  return bytes;
}

std::size_t no_read_ahead() {
  return 0;
}

Status read_all(const ShardReader& reader, const Bytes& shard, std::vector<OwnedSample>& out) {
  RecordList found;
  STOKER_TRY(scan_shard(reader, shard, no_read_ahead, found));
  SampleView view;
  for (const FoundRecord& record : found.records) {
    STOKER_TRY(
        reader.split(std::span(shard).subspan(record.range.offset_bytes, record.range.size_bytes),
                     record.range.offset_bytes, view));
    OwnedSample& sample = out.emplace_back();
    for (const FieldView& field : view.fields) {
      sample.fields.push_back(
          {std::string(field.name),
           std::string(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()),
           field.type,
           std::string(field.dtype),
           {field.shape.begin(), field.shape.end()}});
    }
  }
  return {};
}

Bytes write_all(MdsWriter::Options options, const std::vector<OwnedSample>& samples,
                MdsShard* shard = nullptr) {
  MemorySink sink;
  auto writer = MdsWriter::make(std::move(options), sink);
  EXPECT_TRUE(writer.ok()) << writer.status().message();
  for (const OwnedSample& sample : samples) EXPECT_TRUE((*writer)->append(sample.view()).ok());
  EXPECT_TRUE((*writer)->finish().ok());
  if (shard != nullptr) *shard = (*writer)->shard();
  return sink.bytes;
}

std::string number(std::int64_t value) {
  return {reinterpret_cast<const char*>(&value), sizeof value};
}

const std::vector<OwnedSample> kPlainSamples = {
    {"", {{"a", number(1), FieldType::int64}, {"b", "hi", FieldType::text}}},
    {"", {{"a", number(2), FieldType::int64}, {"b", "", FieldType::text}}},
};

TEST(MdsGoldenTest, the_peers_bytes_read_as_what_it_was_given) {
  const Bytes shard = from_hex(kMdsPlainShard);
  ASSERT_EQ(shard.size(), 223U);
  const auto index = parse_mds_index(kMdsPlainIndex);
  ASSERT_TRUE(index.ok()) << index.status().message();
  const MdsReader reader(index->front().config.columns);
  ASSERT_TRUE(reader.scan_shard(index->front(), shard.size()).ok());
  std::vector<OwnedSample> samples;
  ASSERT_TRUE(read_all(reader, shard, samples).ok());
  ASSERT_EQ(samples.size(), 2U);
  for (std::size_t i = 0; i < 2; ++i)
    EXPECT_EQ(fields_of(samples[i].view()), fields_of(kPlainSamples[i].view()));
}

TEST(MdsGoldenTest, the_same_samples_give_the_peers_bytes_and_its_index) {
  MdsShard shard;
  EXPECT_EQ(format_hex(write_all({}, kPlainSamples, &shard)), kMdsPlainShard);
  EXPECT_EQ(format_mds_index({shard}), kMdsPlainIndex);
}

TEST(MdsGoldenTest, arrays_give_the_peers_bytes_and_read_back) {
  std::string many(300, '\0');
  for (std::size_t i = 0; i < 300; ++i) many[i] = static_cast<char>(i);
  const OwnedSample sample = {
      "",
      {{"any", many, FieldType::array, "|u1", {300, 1}},
       {"fixed", std::string("\x01\x00\xff\xff", 4), FieldType::array, "<i2", {2}},
       {"typed", std::string("\0\0\0\x3f\0\0\xc0\x3f", 8), FieldType::array, "<f4", {1, 2}},
       {"u", "\xc8", FieldType::array, "|u1"}}};
  MdsShard shard;
  const Bytes bytes = write_all({.columns = {{"u", "uint8"},
                                             {"typed", "ndarray:float32"},
                                             {"fixed", "ndarray:int16:2"},
                                             {"any", "ndarray"}},
                                 .size_limit_bytes = std::nullopt},
                                {sample}, &shard);
  EXPECT_EQ(format_hex(bytes), kMdsArraysShard);
  EXPECT_EQ(format_mds_index({shard}), kMdsArraysIndex);
  std::vector<OwnedSample> samples;
  ASSERT_TRUE(read_all(MdsReader(shard.config.columns), bytes, samples).ok());
  for (std::size_t i = 0; i < sample.fields.size(); ++i) {
    EXPECT_EQ(samples[0].fields[i].bytes, sample.fields[i].bytes);
    EXPECT_EQ(samples[0].fields[i].dtype, sample.fields[i].dtype);
    EXPECT_EQ(samples[0].fields[i].shape, sample.fields[i].shape);
  }
}

TEST(MdsGoldenTest, compressed_shards_of_the_peer_inflate_to_what_their_digests_say) {
  for (const auto& [hex, index_text] :
       {std::pair(kMdsZstdShard, kMdsZstdIndex), std::pair(kMdsGzipShard, kMdsGzipIndex),
        std::pair(kMdsBrotliShard, kMdsBrotliIndex), std::pair(kMdsBzip2Shard, kMdsBzip2Index),
        std::pair(kMdsSnappyShard, kMdsSnappyIndex)}) {
    const auto index = parse_mds_index(index_text);
    ASSERT_TRUE(index.ok()) << index.status().message();
    EXPECT_EQ(format_mds_index(*index), index_text);
    const MdsShard& shard = index->front();
    const Bytes file = from_hex(hex);
    const auto raw = inflate_mds_shard(shard, file);
    if (raw.status().code() == Code::unsupported) {
      EXPECT_NE(raw.status().message().find("this build of Stoker cannot read"), std::string::npos);
      continue;
    }
    ASSERT_TRUE(raw.ok()) << raw.status().message();
    std::vector<OwnedSample> samples;
    ASSERT_TRUE(read_all(MdsReader(shard.config.columns), *raw, samples).ok());
    EXPECT_EQ(samples.at(0).fields.at(0).bytes, std::string(100, 'z'));
    for (std::size_t i = 0; i < file.size(); ++i) {
      Bytes damaged = file;
      damaged[i] ^= std::byte{1};
      EXPECT_EQ(inflate_mds_shard(shard, damaged).status().code(), Code::corrupt) << i;
    }
    MdsShard bomb = shard;  // the index says less than comes out
    bomb.raw.size_bytes -= 1;
    EXPECT_EQ(inflate_mds_shard(bomb, file).status().code(), Code::corrupt);
  }
}

TEST(MdsHashTest, digests_are_those_of_python) {
  const std::pair<const char*, const char*> known[] = {
      {"md5", "900150983cd24fb0d6963f7d28e17f72"},
      {"sha1", "a9993e364706816aba3e25717850c26c9cd0d89d"},
      {"xxh32", "32d153ff"},
      {"xxh64", "44bc2cf5ad770999"},
      {"xxh3_64", "78af5f94892f3950"},
      {"xxh128", "06b05ab6733a618578af5f94892f3950"},
      {"blake2s", "508c5e8c327c14e2e1a72ba34eeb452f37458b209ed63a294d999b4c86675982"},
  };
  for (const auto& [algorithm, digest] : known) {
    EXPECT_EQ(*mds_digest(algorithm, std::as_bytes(std::span("abc", 3))), digest) << algorithm;
  }
  EXPECT_EQ(mds_digest("crc32", {}).status().code(), Code::unsupported);
}

/// The plain golden shard with a number put over 4 of its bytes.
Bytes patched(std::size_t at, std::uint32_t value) {
  Bytes shard = from_hex(kMdsPlainShard);
  std::memcpy(shard.data() + at, &value, sizeof value);
  return shard;
}

struct HostileShard {
  const char* reason;
  Bytes shard;
  const char* message;
};

TEST(MdsHostileTest, each_wrong_shard_is_corrupt_and_names_the_offset) {
  Bytes longer = from_hex(kMdsPlainShard);
  longer.push_back(std::byte{0});
  Bytes no_config = from_hex("0000000008000000");
  const HostileShard cases[] = {
      {"count of 4 billion", patched(0, 0xFFFFFFFF), "byte 0: a table for 4294967295 records"},
      {"one sample less", patched(0, 1), "byte 211: 12 bytes are left after the last sample"},
      {"first sample in the table", patched(4, 12), "byte 4: record 0 at 12 overlaps the table"},
      {"configuration cut", patched(4, 190), "byte 16: configuration: byte"},
      {"overlapping samples", patched(8, 100), "byte 8: record 0 ends at 100, before its start"},
      {"beyond the end", patched(12, 224), "byte 12: offset 224 of record 2 is beyond the end"},
      {"samples end early", patched(12, 222), "byte 222: 1 bytes are left after the last sample"},
      {"bytes after the end", longer, "byte 223: 1 bytes are left after the last sample"},
      {"a length too large", patched(197, 3), "byte 209: column \"b\" takes 3 bytes"},
      {"a length of 4 GiB", patched(197, 0xFFFFFFFF), "byte 209: column \"b\" takes 4294967295"},
      {"a length too small", patched(197, 1), "byte 210: 1 bytes are left in the sample"},
      {"other columns", patched(41, 0x22727473), "byte 16: "},
      {"no configuration", no_config, "byte 8: the configuration is missing"},
  };
  const MdsReader reader(parse_mds_index(kMdsPlainIndex)->front().config.columns);
  for (const HostileShard& hostile : cases) {
    std::vector<OwnedSample> samples;
    const Status status = read_all(reader, hostile.shard, samples);
    EXPECT_EQ(status.code(), Code::corrupt) << hostile.reason;
    EXPECT_TRUE(status.message().starts_with(hostile.message))
        << hostile.reason << ": " << status.message();
  }
}

TEST(MdsHostileTest, the_index_says_how_many_samples_and_bytes_there_are) {
  MdsShard shard = parse_mds_index(kMdsPlainIndex)->front();
  const MdsReader reader(shard.config.columns);
  EXPECT_EQ(reader.scan_shard(shard, 222).status().code(), Code::corrupt);
  shard.sample_count = 3;
  const auto scanner = reader.scan_shard(shard, 223);
  ASSERT_TRUE(scanner.ok());
  RecordList found;
  const Status status = (*scanner)->feed(from_hex(kMdsPlainShard), found);
  EXPECT_EQ(status.message(), "byte 0: 2 samples, the index says 3");
  EXPECT_TRUE(found.records.empty());
}

TEST(MdsWriterTest, options_that_make_no_sense_are_refused) {
  MemorySink sink;
  const MdsWriter::Options cases[] = {
      {.columns = {{"x", "pkl"}}},
      {.columns = {{"x", "int"}, {"x", "str"}}},
      {.columns = {{"x", "ndarray:f4"}}},
      {.columns = {{"\xff", "int"}}},
      {.compression = "snappy"},
      {.compression = "zstd:23"},
      {.hashes = {"sha256", "md5"}},
      {.hashes = {"md5", "md5"}},
      {.hashes = {"crc32"}},
      {.size_limit_bytes = std::uint64_t{1} << 32},
  };
  for (const MdsWriter::Options& options : cases) {
    EXPECT_EQ(MdsWriter::make(options, sink).status().code(), Code::invalid_argument);
  }
}

TEST(MdsWriterTest, size_with_a_sample_is_what_the_size_becomes) {
  MemorySink sink;
  const auto writer = MdsWriter::make({}, sink);
  for (const OwnedSample& sample : kPlainSamples) {
    const auto size = (*writer)->size_with(sample.view());
    ASSERT_TRUE(size.ok());
    ASSERT_TRUE((*writer)->append(sample.view()).ok());
    EXPECT_EQ((*writer)->size_bytes(), *size);
  }
  EXPECT_EQ((*writer)->size_bytes(), 223U);
}

TEST(MdsWriterTest, a_key_gets_a_column_if_asked_for) {
  const OwnedSample sample = {"the key", {{"a", "x"}}};
  MdsShard shard;
  const Bytes bytes = write_all({.key_field = "__key__"}, {sample}, &shard);
  std::vector<OwnedSample> samples;
  ASSERT_TRUE(read_all(MdsReader(shard.config.columns), bytes, samples).ok());
  const std::map<std::string, std::string> expected = {{"__key__", "the key"}, {"a", "x"}};
  EXPECT_EQ(fields_of(samples.at(0).view()), expected);
}

TEST(MdsWriterTest, compressed_and_hashed_shards_read_back) {
  for (const char* compression : {"zstd", "zstd:19", "gz", "gz:0"}) {
    MdsShard shard;
    const Bytes file = write_all(
        {.compression = compression, .hashes = {"md5", "sha256", "xxh128"}}, kPlainSamples, &shard);
    ASSERT_TRUE(shard.zip) << compression;
    const auto again = parse_mds_index(format_mds_index({shard}));
    ASSERT_TRUE(again.ok()) << again.status().message();
    const auto raw = inflate_mds_shard(again->front(), file);
    ASSERT_TRUE(raw.ok()) << raw.status().message();
    std::vector<OwnedSample> samples;
    ASSERT_TRUE(read_all(MdsReader(shard.config.columns), *raw, samples).ok());
    EXPECT_EQ(samples.size(), 2U);
  }
}

}  // namespace
}  // namespace stoker::testing
