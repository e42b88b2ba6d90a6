#include "dataset/index/index.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
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

TEST(IndexTest, samples_of_any_size_are_indexed) {
  constexpr std::uint64_t kLast = (std::uint64_t{1} << 48) - 1;
  IndexWriter writer("tar", true);
  writer.add_shard("x", kLast, kLast, 0);
  const std::vector<ByteRange> records = {
      {0, 0xFFFFFFFF}, {7, std::uint64_t{1} << 32}, {kLast - 3, 3}, {0, kLast}, {kLast, 0}};
  for (const ByteRange& record : records) EXPECT_TRUE(writer.add_sample(record, 0xABCDEF01).ok());
  EXPECT_EQ(writer.add_sample({0, kLast + 1}).code(), Code::unsupported);
  EXPECT_EQ(writer.add_sample({kLast + 1, 0}).code(), Code::unsupported);
  const std::vector<std::byte> bytes = writer.finish();
  const Result<Index> index = Index::parse(bytes);
  ASSERT_TRUE(index.ok()) << index.status().message();
  for (std::size_t i = 0; i < records.size(); ++i) {
    EXPECT_EQ(index->locate(i)->record, records[i]);
    EXPECT_EQ(index->locate(i)->crc32c, 0xABCDEF01U);
  }
  EXPECT_EQ(index->record_bytes_max(), kLast);
}

TEST(IndexTest, a_hint_of_the_shard_changes_nothing_but_the_search) {
  const std::vector<std::byte> bytes = sample_index();
  const Result<Index> index = Index::parse(bytes);
  for (const std::uint64_t sample : {0ULL, 4999ULL, 5000ULL, 9999ULL})
    for (const std::uint32_t hint : {0U, 1U, 2U, 3U, ~0U}) {
      EXPECT_EQ(index->locate(sample, hint)->shard, sample < 5000 ? 0U : 2U);
      EXPECT_EQ(index->locate(sample, hint)->record, range_of(sample));
    }
}

TEST(IndexTest, the_worst_batch_is_at_least_the_largest_records_and_a_quarter_more_at_most) {
  std::mt19937_64 random(1);
  std::vector<std::uint64_t> sizes;
  IndexWriter writer("tar", false);
  writer.add_shard("x", std::uint64_t{1} << 40, std::uint64_t{1} << 40, 0);
  for (int i = 0; i < 3000; ++i) {
    sizes.push_back(random() >> (30 + random() % 34));
    ASSERT_TRUE(writer.add_sample({0, sizes.back()}).ok());
  }
  const std::vector<std::byte> bytes = writer.finish();
  const Result<Index> index = Index::parse(bytes);
  ASSERT_TRUE(index.ok());
  std::ranges::sort(sizes, std::greater());
  EXPECT_EQ(index->record_bytes_max(), sizes.front());
  EXPECT_EQ(index->worst_case_bytes(0), 0U);
  std::uint64_t sum = 0;
  for (std::size_t count = 1; count <= sizes.size(); ++count) {
    sum += sizes[count - 1];
    ASSERT_GE(index->worst_case_bytes(count), sum) << count;
    ASSERT_LE(index->worst_case_bytes(count), sum + sum / 4) << count;
  }
  EXPECT_EQ(index->worst_case_bytes(3010),
            index->worst_case_bytes(3000) + 10 * index->record_bytes_max())
      << "some of them twice";
  EXPECT_EQ(index->worst_case_bytes(~std::uint64_t{0}), ~std::uint64_t{0});
  EXPECT_EQ(Index::parse(IndexWriter("tar", false).finish())->worst_case_bytes(9), 0U);
}

TEST(SizeClassesTest, every_size_is_in_the_class_that_ends_at_or_above_it) {
  std::uint64_t last = 0;
  for (std::size_t i = 0; i < SizeClasses::kCount; ++i) {
    const std::uint64_t largest = SizeClasses::largest_in(i);
    if (largest >> 48 != 0) break;
    EXPECT_EQ(SizeClasses::index_of(largest), i);
    EXPECT_EQ(SizeClasses::index_of(largest + 1), i + 1);
    EXPECT_LE(largest, (i < 4 ? i : last + 1) * 5 / 4);
    last = largest;
  }
  EXPECT_LT(SizeClasses::index_of((std::uint64_t{1} << 48) - 1), SizeClasses::kCount);
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

TEST(IndexTest, other_major_versions_are_named) {
  std::vector<std::byte> bytes = sample_index();
  bytes[8] = std::byte{3};
  EXPECT_EQ(Index::parse(bytes).status().code(), Code::unsupported);
  EXPECT_NE(Index::parse(bytes).status().message().find("newer"), std::string::npos);
  bytes[8] = std::byte{1};
  EXPECT_EQ(Index::parse(bytes).status().code(), Code::unsupported);
  EXPECT_NE(Index::parse(bytes).status().message().find("older"), std::string::npos);
}

}  // namespace
}  // namespace stoker
