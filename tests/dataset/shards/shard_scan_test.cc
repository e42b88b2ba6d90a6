#include "dataset/shards/shard_scan.h"

#include <gtest/gtest.h>

#include "dataset/dataset_support.h"
#include "formats/webdataset/webdataset_reader.h"
#include "io/engine/arena.h"
#include "io/files/file.h"
#include "store/local_store.h"
#include "support/faulty_engine.h"

namespace stoker::testing {
namespace {

/// A local object that is read through an engine of the test's.
class EngineObject final : public Object {
 public:
  EngineObject(std::unique_ptr<const Object> object, Engine& engine)
      : object_(std::move(object)), engine_(engine) {}
  const std::string& key() const noexcept override { return object_->key(); }
  const ObjectInfo& info() const noexcept override { return object_->info(); }
  std::size_t scratch_bytes(std::uint64_t offset_bytes, std::size_t size_bytes) const override {
    return object_->scratch_bytes(offset_bytes, size_bytes);
  }
  Result<std::span<std::byte>> read(std::uint64_t offset_bytes, std::size_t size_bytes,
                                    std::span<std::byte> memory) const override {
    return object_->file()->read(engine_, offset_bytes, size_bytes, memory);
  }

 private:
  const std::unique_ptr<const Object> object_;
  Engine& engine_;
};

class ShardScanTest : public ::testing::Test {
 protected:
  ShardScanTest() : memory_(*MappedArena::map(kScanBytes, false, false)) {}

  Result<std::vector<ByteRange>> scan(const ShardReader& reader, CachePolicy policy,
                                      const std::stop_token& stop = {}) {
    STOKER_ASSIGN(const auto object, local_store()->open(path_, policy));
    STOKER_ASSIGN(const auto scanner, reader.scan(object->info().size_bytes));
    return scan_shard(*object, *scanner, memory_.bytes(), stop);
  }
  std::vector<ByteRange> found_in_memory(const ShardReader& reader) const {
    const std::string shard = contents_of(path_);
    RecordList found;
    EXPECT_TRUE(testing::scan_shard(reader, bytes_of(shard), [] { return 0; }, found).ok());
    std::vector<ByteRange> ranges;
    for (const FoundRecord& record : found.records) ranges.push_back(record.range);
    return ranges;
  }

  const DatasetDir dir_;
  const std::string path_ = dir_.file("shard.tar");
  const MappedArena memory_;
};

/// Samples that are smaller than a read, larger than one, and larger than all of the memory.
std::vector<OwnedSample> samples_of_all_sizes() {
  std::vector<OwnedSample> samples;
  for (const std::size_t size :
       {1U, 511U, 512U, 5'000U, 200'000U, 700U, 3'000'000U, 10U, 130'000U, 1U})
    samples.push_back(make_sample(samples.size(), size));
  for (std::size_t i = 0; i < 300; ++i) samples.push_back(make_sample(samples.size()));
  return samples;
}

TEST_F(ShardScanTest, finds_what_a_scan_without_read_ahead_finds) {
  write_tar(path_, samples_of_all_sizes());
  const auto tar = make_webdataset_reader();
  const std::vector<ByteRange> expected = found_in_memory(*tar);
  EXPECT_EQ(expected.size(), 310U);
  for (const CachePolicy policy :
       {CachePolicy::automatic, CachePolicy::buffered, CachePolicy::drop_behind}) {
    const auto found = scan(*tar, policy);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, expected);
  }
  write_tfrecord(path_, samples_of_all_sizes());
  const auto tfrecord = make_tfrecord_reader();
  EXPECT_EQ(*scan(*tfrecord, CachePolicy::automatic), found_in_memory(*tfrecord));
}

TEST_F(ShardScanTest, reads_headers_only_where_samples_are_large) {
  std::vector<OwnedSample> samples;
  for (std::size_t i = 0; i < 20; ++i) samples.push_back(make_sample(i, 2 << 20));
  write_tar(path_, samples);
  std::uint64_t read_bytes = 0;
  const auto engine = make_sync_engine({.tamper = [&](const Request&, std::int64_t raw) {
    read_bytes += static_cast<std::uint64_t>(std::max<std::int64_t>(raw, 0));
    return raw;
  }});
  const EngineObject object(*local_store()->open(path_, CachePolicy::buffered), **engine);
  const std::uint64_t size_bytes = object.info().size_bytes;
  const auto reader = make_webdataset_reader();
  const auto found = scan_shard(object, **reader->scan(size_bytes), memory_.bytes());
  ASSERT_TRUE(found.ok());
  EXPECT_EQ(found->size(), 20U);
  EXPECT_LT(read_bytes, size_bytes / 20) << "of " << size_bytes;
}

TEST_F(ShardScanTest, a_damaged_shard_is_named_with_the_offset) {
  write_tar(path_, make_samples(20));
  const auto tar = make_webdataset_reader();
  const ByteRange tenth = found_in_memory(*tar)[10];
  flip_bit(path_, tenth.offset_bytes + 3);
  const auto found = scan(*tar, CachePolicy::automatic);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::corrupt);
  const std::string message(found.status().message());
  EXPECT_TRUE(message.starts_with(path_ + ": ")) << message;
  EXPECT_NE(message.find("offset " + std::to_string(tenth.offset_bytes)), std::string::npos)
      << message;
}

TEST_F(ShardScanTest, a_shard_that_was_cut_off_is_corrupt) {
  write_tfrecord(path_, make_samples(20));
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) - 7);
  const auto found = scan(*make_tfrecord_reader(), CachePolicy::automatic);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::corrupt);
  EXPECT_NE(found.status().message().find(path_), std::string_view::npos);
}

TEST_F(ShardScanTest, a_failed_read_is_the_answer) {
  write_tar(path_, samples_of_all_sizes());
  const auto reader = make_webdataset_reader();
  for (int fail_at = 0;; ++fail_at) {
    FaultyEngine engine(*make_sync_engine({}), fail_at, -EIO);
    const EngineObject object(*local_store()->open(path_), engine);
    const auto found =
        scan_shard(object, **reader->scan(object.info().size_bytes), memory_.bytes());
    if (!engine.fired()) {
      EXPECT_TRUE(found.ok());
      EXPECT_GT(fail_at, 3);
      break;
    }
    ASSERT_FALSE(found.ok());
    EXPECT_EQ(found.status().code(), Code::io_error);
  }
}

TEST_F(ShardScanTest, a_stop_request_ends_it) {
  write_tar(path_, make_samples(20));
  std::stop_source stop;
  stop.request_stop();
  EXPECT_EQ(
      scan(*make_webdataset_reader(), CachePolicy::automatic, stop.get_token()).status().code(),
      Code::cancelled);
}

TEST_F(ShardScanTest, checksums_are_those_of_the_records_whatever_their_size) {
  write_tar(path_, samples_of_all_sizes());
  const std::string shard = contents_of(path_);
  const std::vector<ByteRange> records = found_in_memory(*make_webdataset_reader());
  const auto object = local_store()->open(path_);
  const auto checksums = checksum_records(**object, records, memory_.bytes());
  ASSERT_TRUE(checksums.ok()) << checksums.status().message();
  ASSERT_EQ(checksums->size(), records.size());
  for (std::size_t i = 0; i < records.size(); ++i)
    EXPECT_EQ((*checksums)[i],
              crc32c(bytes_of(shard).subspan(records[i].offset_bytes, records[i].size_bytes)));
}

}  // namespace
}  // namespace stoker::testing
