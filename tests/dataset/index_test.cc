#include "dataset/index.h"

#include <gtest/gtest.h>

#include <fstream>
#include <random>

#include "support/temp_dir.h"

namespace stoker {
namespace {

constexpr std::uint64_t kSamples = 10'000;  // more than two blocks of entries

ByteRange range_of(std::uint64_t sample) {
  return {sample % 5000 * 1000, 100 + sample % 7};
}

std::vector<std::byte> sample_index(bool has_checksums = true, std::int64_t mtime_ns = 17) {
  IndexWriter writer("tar", has_checksums);
  writer.add_shard("train/a.tar", 6'000'000, 6'000'000, mtime_ns);
  for (std::uint64_t i = 0; i < 5000; ++i)
    EXPECT_TRUE(
        writer.add_sample(range_of(i), has_checksums ? static_cast<std::uint32_t>(i) : 0).ok());
  writer.add_shard("train/empty.tar", 1024, 1024, mtime_ns);
  writer.add_shard("train/b.tar", 6'000'000, 6'000'000, mtime_ns);
  for (std::uint64_t i = 5000; i < kSamples; ++i)
    EXPECT_TRUE(
        writer.add_sample(range_of(i), has_checksums ? static_cast<std::uint32_t>(i) : 0).ok());
  return writer.finish();
}

TEST(IndexTest, every_sample_is_found_where_it_was_put) {
  const std::vector<std::byte> bytes = sample_index();
  const Result<Index> index = Index::parse(bytes);
  ASSERT_TRUE(index.ok()) << index.status().message();
  EXPECT_EQ(index->format(), "tar");
  EXPECT_TRUE(index->has_checksums());
  ASSERT_EQ(index->sample_count(), kSamples);
  ASSERT_EQ(index->shards().size(), 3U);
  EXPECT_EQ(index->shards()[2].name, "train/b.tar");
  EXPECT_EQ(index->shards()[2].first_sample, 5000U);
  EXPECT_EQ(index->shards()[1].sample_count, 0U);
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    const Result<SampleLocation> at = index->locate(i);
    ASSERT_TRUE(at.ok()) << at.status().message();
    ASSERT_EQ(at->shard, i < 5000 ? 0U : 2U);
    ASSERT_EQ(at->record, range_of(i));
    ASSERT_EQ(at->crc32c, i);
  }
  EXPECT_EQ(index->locate(kSamples).status().code(), Code::invalid_argument);
  EXPECT_TRUE(index->verify().ok());
}

TEST(IndexTest, an_empty_dataset_has_an_index) {
  const std::vector<std::byte> bytes = IndexWriter("tar", false).finish();
  const Result<Index> index = Index::parse(bytes);
  ASSERT_TRUE(index.ok());
  EXPECT_EQ(index->sample_count(), 0U);
  EXPECT_FALSE(index->locate(0).ok());
}

TEST(IndexTest, the_fingerprint_ignores_times_directories_and_checksums) {
  const auto fingerprint = [](const std::vector<std::byte>& bytes) {
    return Index::parse(bytes)->fingerprint();
  };
  const std::vector<std::byte> one = sample_index(true, 17);
  EXPECT_EQ(fingerprint(one), fingerprint(sample_index(true, 99)));
  EXPECT_EQ(fingerprint(one), fingerprint(sample_index(false, 17)));
  IndexWriter moved("tar", true);
  IndexWriter other("tar", true);
  moved.add_shard("elsewhere/x.tar", 9000, 9000, 0);
  other.add_shard("x.tar", 9000, 9000, 1);
  EXPECT_TRUE(moved.add_sample({0, 512}).ok());
  EXPECT_TRUE(other.add_sample({0, 512}).ok());
  EXPECT_EQ(fingerprint(moved.finish()), fingerprint(other.finish()));
  IndexWriter changed("tar", true);
  changed.add_shard("x.tar", 9000, 9000, 1);
  EXPECT_TRUE(changed.add_sample({0, 513}).ok());
  EXPECT_NE(fingerprint(changed.finish()), fingerprint(one));
}

TEST(IndexTest, samples_of_four_gigabytes_are_refused) {
  IndexWriter writer("tar", false);
  writer.add_shard("x", std::uint64_t{1} << 40, std::uint64_t{1} << 40, 0);
  EXPECT_TRUE(writer.add_sample({0, 0xFFFFFFFF}).ok());
  EXPECT_EQ(writer.add_sample({0, std::uint64_t{1} << 32}).code(), Code::unsupported);
}

TEST(IndexTest, every_flipped_byte_is_found_when_it_is_looked_at) {
  IndexWriter writer("tar", true);
  writer.add_shard("shard-000000.tar", 1 << 20, 1 << 20, 17);
  for (std::uint64_t i = 0; i < 100; ++i) EXPECT_TRUE(writer.add_sample({i * 512, 512}, 7).ok());
  const std::vector<std::byte> good = writer.finish();
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::vector<std::byte> bad = good;
    bad[at] ^= std::byte{0x10};
    const Result<Index> index = Index::parse(bad);
    ASSERT_FALSE(index.ok() && index->verify().ok()) << "byte " << at;
  }
}

TEST(IndexTest, every_truncation_and_extension_is_refused) {
  const std::vector<std::byte> good = sample_index();
  for (std::size_t size = 0; size < good.size(); size += 1 + size / 50)
    EXPECT_FALSE(Index::parse(std::span(good).first(size)).ok()) << size;
  std::vector<std::byte> longer = good;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(Index::parse(longer).ok());
}

TEST(IndexTest, opening_a_file_names_it_when_it_is_damaged) {
  const testing::TempDir dir;
  const std::string path = dir.file("index");
  std::vector<std::byte> bytes = sample_index();
  std::ofstream(path).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  EXPECT_EQ(Index::open(path)->sample_count(), kSamples);
  bytes[9] ^= std::byte{1};
  std::ofstream(path).write(reinterpret_cast<const char*>(bytes.data()), std::ssize(bytes));
  const Status status = Index::open(path).status();
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find(path), std::string::npos);
  EXPECT_NE(status.message().find("stoker index"), std::string::npos);
}

TEST(IndexTest, a_newer_major_version_is_named) {
  std::vector<std::byte> bytes = sample_index();
  bytes[8] = std::byte{2};
  EXPECT_EQ(Index::parse(bytes).status().code(), Code::unsupported);
}

}  // namespace
}  // namespace stoker
