#pragma once

// What every shard format must do. A format is done when it passes this suite:
//
//   INSTANTIATE_TEST_SUITE_P(mine, ShardFormatSuite, ::testing::Values(ShardFormatMaker{...}),
//                            shard_format_name);

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "conformance/shard_format_support.h"
#include "formats/shard_format.h"

namespace stoker::testing {

/// A sample that the writer must refuse after `before`, which it takes.
struct RefusedSample {
  std::string reason;
  std::vector<OwnedSample> before;
  OwnedSample sample;
};

/// A shard in memory, and what came with it.
struct WrittenShard {
  std::vector<std::byte> bytes;
  std::vector<ShardWriter::Sidecar> sidecars;
  std::vector<ByteRange> last_records;
  std::uint64_t size_bytes_before_finish = 0;
};

struct ShardFormatMaker {
  /// The name of the format's row in the table (formats/table/shard_formats.h). If there are
  /// several makers for one row, "_" and more follow it.
  const char* name;
  /// Some samples that the format can hold: as many as `count`, small, of all shapes, with no two
  /// alike. With `random` they differ from call to call.
  std::function<std::vector<OwnedSample>(std::size_t count, std::mt19937_64& random)> samples;
  /// A writer for those samples into a sink that outlives it. Null for a format that is only read:
  /// `shard` then makes a shard of the samples, and the tests of writers are skipped.
  std::function<Result<std::unique_ptr<ShardWriter>>(ByteSink& sink,
                                                     std::span<const OwnedSample> samples)>
      writer = nullptr;
  /// A reader for that shard. `shard.bytes` may have been damaged since it was written.
  std::function<Result<std::unique_ptr<ShardReader>>(const WrittenShard& shard)> reader = nullptr;
  std::function<WrittenShard(std::span<const OwnedSample> samples)> shard = nullptr;
  std::vector<RefusedSample> refused = {};
  bool has_keys = true;
  /// Whether a flipped bit anywhere in a record's payload is found by the format itself.
  bool detects_flips = false;
  /// Whether a shard without samples can be written.
  bool holds_no_samples = true;
  std::size_t samples_max = SIZE_MAX;  ///< In one shard.
  /// Whether the beginning of a shard is a shard of a shorter record, as of an array without a
  /// header.
  bool is_whole_at_any_size = false;
};

inline std::string shard_format_name(const ::testing::TestParamInfo<ShardFormatMaker>& info) {
  return info.param.name;
}
inline std::ostream& operator<<(std::ostream& out, const ShardFormatMaker& maker) {
  return out << maker.name;
}

class ShardFormatSuite : public ::testing::TestWithParam<ShardFormatMaker> {
 protected:
  static constexpr std::size_t kCount = 6;

  std::vector<OwnedSample> samples(std::size_t count = kCount) {
    return GetParam().samples(std::min(count, GetParam().samples_max), random_);
  }

  static WrittenShard write(std::span<const OwnedSample> samples) {
    if (!GetParam().writer) return GetParam().shard(samples);
    MemorySink sink;
    WrittenShard shard;
    Result<std::unique_ptr<ShardWriter>> writer = GetParam().writer(sink, samples);
    EXPECT_TRUE(writer.ok()) << writer.status().message();
    if (!writer.ok()) return shard;
    for (const OwnedSample& sample : samples) {
      const Status status = (*writer)->append(sample.view());
      EXPECT_TRUE(status.ok()) << status.message();
      shard.last_records.push_back((*writer)->last_record());
    }
    EXPECT_EQ((*writer)->sample_count(), samples.size());
    shard.size_bytes_before_finish = (*writer)->size_bytes();
    Result<std::vector<ShardWriter::Sidecar>> sidecars = (*writer)->finish();
    EXPECT_TRUE(sidecars.ok()) << sidecars.status().message();
    if (sidecars.ok()) shard.sidecars = *std::move(sidecars);
    shard.bytes = std::move(sink.bytes);
    return shard;
  }

  static Status scan(
      const WrittenShard& shard, std::vector<FoundRecord>& records,
      const std::function<std::size_t()>& read_ahead = [] { return 0; }) {
    STOKER_ASSIGN(const std::unique_ptr<ShardReader> reader, GetParam().reader(shard));
    RecordList found;
    const Status status = scan_shard(*reader, shard.bytes, read_ahead, found);
    records = std::move(found.records);
    return status;
  }

  static std::vector<FoundRecord> records_of(const WrittenShard& shard) {
    std::vector<FoundRecord> records;
    const Status status = scan(shard, records);
    EXPECT_TRUE(status.ok()) << status.message();
    return records;
  }

  /// Splits the record out of a copy of its own, and gives what is in it.
  static Status split(const WrittenShard& shard, ByteRange range, OwnedSample& out) {
    STOKER_ASSIGN(const std::unique_ptr<ShardReader> reader, GetParam().reader(shard));
    const auto inside = std::span(shard.bytes).subspan(range.offset_bytes, range.size_bytes);
    const std::vector<std::byte> record(inside.begin(), inside.end());
    SampleView view;
    STOKER_TRY(reader->split(record, range.offset_bytes, view));
    check_views(record, view);
    out = {std::string(view.key), {}};
    for (const auto& [name, bytes] : fields_of(view)) out.fields.push_back({name, bytes});
    return {};
  }

  static void check_views(std::span<const std::byte> record, const SampleView& sample) {
    const auto inside = [&](const void* data, std::size_t size) {
      if (size == 0) return true;
      const auto* begin = static_cast<const std::byte*>(data);
      const auto within = [&](std::span<const std::byte> whole) {
        return std::less_equal<>()(whole.data(), begin) &&
               std::less_equal<>()(begin + size, whole.data() + whole.size());
      };
      if (within(record)) return true;
      for (const std::vector<std::byte>& kept : sample.storage)
        if (within(kept)) return true;
      return false;
    };
    EXPECT_TRUE(inside(sample.key.data(), sample.key.size())) << "key";
    for (const FieldView& field : sample.fields)
      EXPECT_TRUE(inside(field.bytes.data(), field.bytes.size())) << field.name;
  }

  static void expect_same(const OwnedSample& read, const OwnedSample& written) {
    if (GetParam().has_keys) {
      EXPECT_EQ(read.key, written.key);
    }
    EXPECT_EQ(fields_of(read.view()), fields_of(written.view())) << written.key;
  }

  /// Reads all there is, whatever it is; harmless is all that is asked.
  static void read_all(const WrittenShard& shard) {
    std::vector<FoundRecord> records;
    if (const Status status = scan(shard, records); !status.ok()) {
      EXPECT_FALSE(status.message().empty());
      EXPECT_TRUE(status.code() == Code::corrupt || status.code() == Code::unsupported)
          << status.message();
    }
    OwnedSample ignored;
    for (const FoundRecord& record : records)
      if (record.range.offset_bytes <= shard.bytes.size() &&
          record.range.size_bytes <= shard.bytes.size() - record.range.offset_bytes)
        (void)split(shard, record.range, ignored);
  }

  std::mt19937_64 random_{20260101};
};

TEST_P(ShardFormatSuite, every_sample_reads_back_as_it_was_written) {
  for (const std::size_t count : {1U, 2U, 3U, 50U}) {
    const std::vector<OwnedSample> written = samples(count);
    const WrittenShard shard = write(written);
    const std::vector<FoundRecord> records = records_of(shard);
    ASSERT_EQ(records.size(), written.size());
    for (std::size_t i = 0; i < written.size(); ++i) {
      OwnedSample read;
      const Status status = split(shard, records[i].range, read);
      ASSERT_TRUE(status.ok()) << status.message();
      expect_same(read, written[i]);
      if (GetParam().has_keys) {
        EXPECT_EQ(records[i].key, written[i].key);
      }
    }
  }
}

TEST_P(ShardFormatSuite, any_read_ahead_finds_the_same_records) {
  const WrittenShard shard = write(samples());
  const std::vector<FoundRecord> expected = records_of(shard);
  for (const std::size_t ahead : {1U, 7U, 511U, 512U, 513U, 4096U, 1U << 30}) {
    std::vector<FoundRecord> records;
    ASSERT_TRUE(scan(shard, records, [=] { return ahead; }).ok()) << ahead;
    EXPECT_EQ(records, expected) << ahead;
  }
  for (int round = 0; round < 50; ++round) {
    std::vector<FoundRecord> records;
    ASSERT_TRUE(scan(shard, records, [&] { return random_() % 3000; }).ok());
    EXPECT_EQ(records, expected);
  }
}

TEST_P(ShardFormatSuite, records_come_in_order_and_do_not_overlap) {
  std::uint64_t end_bytes = 0;
  for (const FoundRecord& record : records_of(write(samples(20)))) {
    EXPECT_GE(record.range.offset_bytes, end_bytes);
    end_bytes = record.range.end_bytes();
  }
}

TEST_P(ShardFormatSuite, last_record_agrees_with_the_scanner) {
  if (!GetParam().writer) GTEST_SKIP() << "the format is only read";
  const WrittenShard shard = write(samples(20));
  const std::vector<FoundRecord> records = records_of(shard);
  ASSERT_EQ(records.size(), shard.last_records.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ(records[i].range, shard.last_records[i]) << i;
}

TEST_P(ShardFormatSuite, size_bytes_is_what_finish_leaves) {
  if (!GetParam().writer) GTEST_SKIP() << "the format is only read";
  for (const std::size_t count : {1U, 5U, 50U}) {
    const WrittenShard shard = write(samples(count));
    EXPECT_EQ(shard.bytes.size(), shard.size_bytes_before_finish);
  }
}

TEST_P(ShardFormatSuite, the_same_samples_give_the_same_bytes) {
  if (!GetParam().writer) GTEST_SKIP() << "the format is only read";
  const std::vector<OwnedSample> written = samples();
  EXPECT_EQ(write(written).bytes, write(written).bytes);
}

TEST_P(ShardFormatSuite, a_shard_without_samples_reads_back_as_one) {
  if (!GetParam().holds_no_samples) GTEST_SKIP() << "the format has no empty shards";
  EXPECT_TRUE(records_of(write({})).empty());
}

TEST_P(ShardFormatSuite, nothing_is_appended_after_finish) {
  if (!GetParam().writer) GTEST_SKIP() << "the format is only read";
  const std::vector<OwnedSample> written = samples(2);
  MemorySink sink;
  const Result<std::unique_ptr<ShardWriter>> writer = GetParam().writer(sink, written);
  ASSERT_TRUE(writer.ok());
  ASSERT_TRUE((*writer)->append(written[0].view()).ok());
  ASSERT_TRUE((*writer)->finish().ok());
  const std::size_t size = sink.bytes.size();
  EXPECT_FALSE((*writer)->append(written[1].view()).ok());
  EXPECT_FALSE((*writer)->finish().ok());
  EXPECT_EQ(sink.bytes.size(), size);
}

TEST_P(ShardFormatSuite, truncation_at_every_length_is_an_error_or_a_prefix) {
  if (GetParam().is_whole_at_any_size) GTEST_SKIP() << "the format does not say where a shard ends";
  const WrittenShard whole = write(samples(3));
  const std::vector<FoundRecord> expected = records_of(whole);
  // Every length of a small shard; of a large one every length near a record's border too.
  const std::size_t step = std::max<std::size_t>(1, whole.bytes.size() / 6000);
  for (std::size_t size = 0; size < whole.bytes.size(); size += step) {
    WrittenShard cut = whole;
    cut.bytes.resize(size);
    std::vector<FoundRecord> records;
    const Status status = scan(cut, records);
    if (!status.ok()) {
      EXPECT_EQ(status.code(), Code::corrupt) << size << ": " << status.message();
      continue;
    }
    ASSERT_LE(records.size(), expected.size()) << size;
    for (std::size_t i = 0; i < records.size(); ++i) {
      ASSERT_EQ(records[i], expected[i]) << size;
      ASSERT_LE(records[i].range.end_bytes(), size);
    }
  }
}

TEST_P(ShardFormatSuite, any_flipped_bit_is_read_without_harm) {
  const WrittenShard whole = write(samples(2));
  for (std::size_t i = 0; i < whole.bytes.size(); ++i) {
    WrittenShard damaged = whole;
    damaged.bytes[i] ^= std::byte{1} << (i % 8);
    read_all(damaged);
    if (HasFailure()) FAIL() << "byte " << i;
  }
}

TEST_P(ShardFormatSuite, a_flipped_bit_inside_a_record_is_found_where_the_format_has_checksums) {
  if (!GetParam().detects_flips) GTEST_SKIP() << "the format has no checksums over its payload";
  const WrittenShard whole = write(samples(2));
  for (const FoundRecord& record : records_of(whole)) {
    for (std::uint64_t i = record.range.offset_bytes; i < record.range.end_bytes(); ++i) {
      WrittenShard damaged = whole;
      damaged.bytes[i] ^= std::byte{1} << (i % 8);
      OwnedSample read;
      EXPECT_EQ(split(damaged, record.range, read).code(), Code::corrupt) << i;
    }
  }
}

TEST_P(ShardFormatSuite, a_record_of_the_wrong_place_or_size_is_split_without_harm) {
  const WrittenShard shard = write(samples(3));
  OwnedSample ignored;
  for (const FoundRecord& record : records_of(shard)) {
    for (int round = 0; round < 200; ++round) {
      const std::uint64_t offset = random_() % shard.bytes.size();
      (void)split(shard, {offset, random_() % (shard.bytes.size() - offset)}, ignored);
      const std::uint64_t size = random_() % (record.range.size_bytes + 1);
      (void)split(shard, {record.range.offset_bytes, size}, ignored);
    }
    (void)split(shard, {record.range.offset_bytes, 0}, ignored);
  }
}

TEST_P(ShardFormatSuite, what_the_format_cannot_hold_is_refused_and_leaves_the_shard_as_before) {
  if (!GetParam().writer) GTEST_SKIP() << "the format is only read";
  for (const RefusedSample& refused : GetParam().refused) {
    SCOPED_TRACE(refused.reason);
    std::vector<OwnedSample> declared = refused.before;
    if (declared.empty()) declared = samples(1);
    MemorySink sink;
    const Result<std::unique_ptr<ShardWriter>> writer = GetParam().writer(sink, declared);
    ASSERT_TRUE(writer.ok()) << writer.status().message();
    for (const OwnedSample& sample : declared) ASSERT_TRUE((*writer)->append(sample.view()).ok());
    const std::uint64_t size_bytes = (*writer)->size_bytes();
    const Status status = (*writer)->append(refused.sample.view());
    EXPECT_EQ(status.code(), Code::invalid_argument) << status.message();
    EXPECT_FALSE(status.message().empty());
    EXPECT_EQ((*writer)->size_bytes(), size_bytes);
    EXPECT_EQ((*writer)->sample_count(), declared.size());
    ASSERT_TRUE((*writer)->finish().ok());
    EXPECT_EQ(sink.bytes, write(declared).bytes);
  }
}

TEST_P(ShardFormatSuite, a_failing_sink_fails_the_writer_at_every_call) {
  if (!GetParam().writer) GTEST_SKIP() << "the format is only read";
  const std::vector<OwnedSample> written = samples(3);
  MemorySink counting;
  const auto write_into = [&](MemorySink& sink) -> Status {
    STOKER_ASSIGN(const std::unique_ptr<ShardWriter> writer, GetParam().writer(sink, written));
    for (const OwnedSample& sample : written) STOKER_TRY(writer->append(sample.view()));
    const Result<std::vector<ShardWriter::Sidecar>> sidecars = writer->finish();
    return sidecars.ok() ? Status() : sidecars.status();
  };
  ASSERT_TRUE(write_into(counting).ok());
  for (std::size_t call = 0; call < counting.calls(); ++call) {
    MemorySink sink(call);
    EXPECT_EQ(write_into(sink).code(), Code::no_space) << call;
  }
}

TEST_P(ShardFormatSuite, a_failing_record_sink_ends_the_scan_with_its_failure) {
  class Failing : public RecordSink {
    Status add(ByteRange, std::string_view) override {
      return Status(Code::cancelled, "that is enough");
    }
  };
  const WrittenShard shard = write(samples(3));
  const Result<std::unique_ptr<ShardReader>> reader = GetParam().reader(shard);
  ASSERT_TRUE(reader.ok());
  Failing sink;
  EXPECT_EQ(scan_shard(**reader, shard.bytes, [] { return 0; }, sink).code(), Code::cancelled);
}

}  // namespace stoker::testing
