#include "formats/tfrecord/tfrecord.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <string>

#include "base/hex.h"
#include "formats/tfrecord/tf_example.h"
#include "support/temp_dir.h"

namespace stoker {
namespace {

using testing::contents_of;

class MemorySink : public ByteSink {
 public:
  Status write(std::span<const std::byte> piece) override {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
    return {};
  }
  std::vector<std::byte> bytes;
};

class RecordList : public RecordSink {
 public:
  Status add(ByteRange record, std::string_view) override {
    records.push_back(record);
    return {};
  }
  std::vector<ByteRange> records;
};

std::vector<std::byte> to_bytes(std::string_view text) {
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> golden(const std::string& name) {
  std::vector<std::byte> bytes =
      to_bytes(contents_of(std::string(STOKER_GOLDEN_DIR "/tfrecord/") + name));
  EXPECT_FALSE(bytes.empty()) << name;
  return bytes;
}

std::vector<std::byte> from_hex(std::string_view hex) {
  std::vector<std::byte> bytes(hex.size() / 2);
  EXPECT_TRUE(parse_hex(hex, bytes).ok()) << hex;
  return bytes;
}

/// A record around `data`, its checksums right.
std::vector<std::byte> framed(std::span<const std::byte> data) {
  MemorySink sink;
  SampleView sample;
  sample.fields = {{.name = "data", .bytes = data}};
  EXPECT_TRUE(make_tfrecord_writer(sink, {.raw = true})->append(sample).ok());
  return sink.bytes;
}

Status scan(std::span<const std::byte> shard, RecordList& records) {
  STOKER_ASSIGN(const auto scanner, make_tfrecord_reader()->scan(shard.size()));
  for (ByteRange want; (want = scanner->wants()).size_bytes > 0;)
    STOKER_TRY(scanner->feed(shard.subspan(want.offset_bytes, want.size_bytes), records));
  return {};
}

/// Each record of the shard, one after the other, given to `visit`.
void read_all(std::span<const std::byte> shard, TfRecordReaderOptions options,
              const std::function<void(const SampleView&)>& visit) {
  RecordList found;
  ASSERT_TRUE(scan(shard, found).ok());
  SampleView sample;
  for (const ByteRange& record : found.records) {
    const Status status = make_tfrecord_reader(options)->split(
        shard.subspan(record.offset_bytes, record.size_bytes), record.offset_bytes, sample);
    ASSERT_TRUE(status.ok()) << status.message();
    visit(sample);
  }
}

TEST(TfRecordTest, the_known_record_reads_and_writes) {
  const std::vector<std::byte> known = from_hex("0500000000000000eab2043e68656c6c6fbb1f1c19");
  EXPECT_EQ(format_hex(framed(to_bytes("hello"))), format_hex(known));
  read_all(known, {.raw = true}, [](const SampleView& sample) {
    EXPECT_EQ(format_hex(sample.find("data")->bytes), "68656c6c6f");
  });
}

TEST(TfRecordTest, what_the_tfrecord_package_wrote_reads_and_is_written_again_byte_for_byte) {
  // Written again from what was read: nothing is lost, and the bytes are protobuf's.
  const std::vector<std::byte> deterministic = golden("deterministic.tfrecord");
  for (const char* name : {"tfrecord_1_14_6.tfrecord", "deterministic.tfrecord"}) {
    MemorySink sink;
    const std::unique_ptr<ShardWriter> writer = make_tfrecord_writer(sink);
    read_all(golden(name), {},
             [&](const SampleView& sample) { ASSERT_TRUE(writer->append(sample).ok()); });
    ASSERT_TRUE(writer->finish().ok());
    EXPECT_EQ(writer->sample_count(), 4U);
    EXPECT_EQ(sink.bytes, deterministic) << name;
  }
}

TEST(TfRecordTest, the_golden_examples_have_the_values_they_were_made_from) {
  std::vector<std::string> shown;
  read_all(golden("tfrecord_1_14_6.tfrecord"), {}, [&](const SampleView& sample) {
    std::string line;
    for (const FieldView& field : sample.fields)
      line +=
          std::string(field.name) + "=" + std::to_string(static_cast<int>(field.type)) + ":" +
          (field.bytes.size() > 60 ? std::to_string(field.bytes.size()) : format_hex(field.bytes)) +
          " ";
    shown.push_back(line);
  });
  ASSERT_EQ(shown.size(), 4U);
  EXPECT_EQ(shown[0],
            "café=0:e282ac image=0:256 label=3:0700000000000000 weights=4:0000003f0000a0bf ");
  EXPECT_EQ(shown[1],
            "empty=0: ints=3:ffffffffffffffff000000000000000001000000000000002c01000000000000"
            "ffffffffffffff7f0000000000000080 no_bytes=6: no_floats=4: no_ints=3: ");
  EXPECT_EQ(shown[2], "many=6:0a01610a000a03636363 ");
  EXPECT_EQ(shown[3], "");
}

TEST(TfRecordTest, unpacked_lists_and_merged_names_read_as_protobuf_reads_them) {
  read_all(golden("unpacked.tfrecord"), {}, [](const SampleView& sample) {
    ASSERT_EQ(sample.fields.size(), 3U);  // "unset" is none
    EXPECT_EQ(format_hex(sample.find("floats")->bytes), "0000803f000000400000803f");
    EXPECT_EQ(format_hex(sample.find("ints")->bytes),
              "0500000000000000ffffffffffffffff06000000000000000700000000000000");
    EXPECT_EQ(format_hex(sample.find("twice")->bytes), "0200000000000000");
  });
}

TEST(TfRecordTest, records_that_are_no_examples_read_raw) {
  const std::vector<std::byte> shard = golden("not_examples.tfrecord");
  std::vector<std::string> read;
  read_all(shard, {.raw = true},
           [&](const SampleView& sample) { read.push_back(format_hex(sample.fields[0].bytes)); });
  EXPECT_EQ(read, (std::vector<std::string>{"", "68656c6c6f"}));
  SampleView sample;
  const Status status = make_tfrecord_reader()->split(std::span(shard).subspan(16), 16, sample);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_TRUE(status.message().starts_with("record at offset 16 is not a tf.Example: offset 30"))
      << status.message();
  EXPECT_TRUE(sample.fields.empty());
}

TEST(TfRecordTest, a_raw_writer_takes_one_field_named_data) {
  MemorySink sink;
  const std::unique_ptr<ShardWriter> writer = make_tfrecord_writer(sink, {.raw = true});
  SampleView sample;
  EXPECT_EQ(writer->append(sample).code(), Code::invalid_argument);
  sample.fields = {{.name = "image", .bytes = {}}};
  EXPECT_EQ(writer->append(sample).code(), Code::invalid_argument);
  EXPECT_TRUE(sink.bytes.empty());
}

TEST(TfRecordTest, a_shard_compressed_as_a_whole_is_refused_by_name) {
  const struct {
    const char* hex;  // the first 16 bytes of what gzip, zlib.compress and zstd made
    const char* name;
  } kCompressed[] = {{"1f8b0800000000000003636060600000", "(gzip)"},
                     {"789c63606060000000040001ffffffff", "(zlib)"},
                     {"28b52ffd2010810000000000ffffffff", "(zstd)"}};
  for (const auto& compressed : kCompressed) {
    RecordList records;
    const Status status = scan(from_hex(compressed.hex), records);
    EXPECT_EQ(status.code(), Code::unsupported);
    EXPECT_NE(status.message().find(compressed.name), std::string::npos) << status.message();
    EXPECT_NE(status.message().find("decompress it first"), std::string::npos);
  }
}

TEST(TfRecordTest, a_record_whose_length_looks_like_gzip_is_a_record) {
  RecordList records;
  EXPECT_TRUE(scan(framed(std::vector<std::byte>(0x8B1F)), records).ok());
  EXPECT_EQ(records.records.size(), 1U);
}

/// A header for any length, its checksum right.
std::vector<std::byte> header_of(std::uint64_t length) {
  std::vector<std::byte> header(12);
  std::memcpy(header.data(), &length, 8);
  const std::uint32_t crc = internal::masked_crc32c(std::span(header).first(8));
  std::memcpy(header.data() + 8, &crc, 4);
  return header;
}

TEST(TfRecordTest, lengths_that_leave_the_shard_are_found_whatever_their_checksum_says) {
  const std::vector<std::byte> first = framed(to_bytes("hello"));
  for (const std::uint64_t length :
       {std::uint64_t{6}, std::uint64_t{1} << 40, ~std::uint64_t{0}, ~std::uint64_t{0} - 15,
        ~std::uint64_t{0} - 36, std::uint64_t{1} << 63}) {
    std::vector<std::byte> shard = first;
    const std::vector<std::byte> header = header_of(length);
    shard.insert(shard.end(), header.begin(), header.end());
    shard.resize(shard.size() + 5 + 4);
    RecordList records;
    const Status status = scan(shard, records);
    EXPECT_EQ(status.code(), Code::corrupt);
    EXPECT_EQ(status.message(), "record at offset 21: its " + std::to_string(length) +
                                    " bytes of data go past the end of the shard at 42");
    EXPECT_EQ(records.records.size(), 1U);
  }
}

TEST(TfRecordTest, a_header_without_room_for_the_last_checksum_is_corrupt) {
  std::vector<std::byte> shard = header_of(0);
  for (; shard.size() < 16; shard.emplace_back()) {
    RecordList records;
    EXPECT_EQ(scan(shard, records).code(), Code::corrupt) << shard.size();
  }
}

TEST(TfRecordTest, each_way_to_be_wrong_has_its_message) {
  const std::vector<std::byte> good = framed(to_bytes("hello"));
  const auto message = [](std::span<const std::byte> record) {
    SampleView sample;
    const Status status = make_tfrecord_reader({.raw = true})->split(record, 77, sample);
    EXPECT_EQ(status.code(), Code::corrupt);
    return std::string(status.message());
  };
  std::vector<std::byte> bad = good;
  bad[13] ^= std::byte{1};
  EXPECT_EQ(message(bad), "record at offset 77: the checksum of its data is wrong");
  bad = good;
  bad[0] ^= std::byte{1};
  EXPECT_EQ(message(bad), "record at offset 77: the checksum of its length is wrong");
  bad = good;
  bad.emplace_back();
  EXPECT_EQ(message(bad), "record at offset 77: its length does not match its 22 bytes");
  EXPECT_EQ(message(std::span(good).first(15)), "record at offset 77: 15 bytes are not a record");
  EXPECT_EQ(message({}), "record at offset 77: 0 bytes are not a record");
}

TEST(TfRecordTest, a_shard_cut_between_records_is_whole_and_cut_elsewhere_is_not) {
  std::vector<std::byte> shard;
  std::vector<std::size_t> borders = {0};
  for (const char* data : {"hello", "", "a longer record than the others"}) {
    const std::vector<std::byte> record = framed(to_bytes(data));
    shard.insert(shard.end(), record.begin(), record.end());
    borders.push_back(shard.size());
  }
  for (std::size_t size = 0; size <= shard.size(); ++size) {
    RecordList records;
    const bool border = std::ranges::find(borders, size) != borders.end();
    EXPECT_EQ(scan(std::span(shard).first(size), records).ok(), border) << size;
  }
}

TEST(TfRecordTest, a_scanner_that_gets_too_little_says_so) {
  auto scanner = make_tfrecord_reader()->scan(100);
  ASSERT_TRUE(scanner.ok());
  RecordList records;
  EXPECT_EQ((*scanner)->feed({}, records).code(), Code::invalid_argument);
  EXPECT_EQ((*scanner)->wants().size_bytes, 0U);
}

}  // namespace
}  // namespace stoker
