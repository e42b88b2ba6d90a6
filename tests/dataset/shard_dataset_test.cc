#include "dataset/shard_dataset.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "dataset/dataset_support.h"
#include "dataset/key_search.h"
#include "golden/litdata/litdata_golden.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

using Fields = std::map<std::string, std::string>;

/// AddressSanitizer's allocator is not made ready for fork(): if another thread allocates at that
/// moment, the child waits for ever in its next malloc, whoever calls it.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kMayForkAmidAllocations = false;
#else
constexpr bool kMayForkAmidAllocations = true;
#endif

struct Expected {
  std::string key;
  Fields fields;
};

Expected expected_of(const OwnedSample& sample, const std::string& key) {
  Expected expected{key, {}};
  for (const OwnedField& field : sample.fields) expected.fields[field.name] = field.bytes;
  return expected;
}

/// A dataset on disk, and what must come out of it.
struct Case {
  std::string name;
  ShardDataset::Options options = {};
  std::vector<Expected> samples = {};
};

/// Writes the dataset of that name into `directory`.
void write_case(const std::string& directory, Case& made) {
  const std::vector<OwnedSample> samples = make_samples(25);
  const auto number_of = [](std::size_t i) { return std::to_string(i); };
  if (made.name == "tar" || made.name == "tfrecord") {
    const bool is_tar = made.name == "tar";
    for (std::size_t i = 0; i < 3; ++i) {
      const auto part = std::span(samples).subspan(i * 10, std::min<std::size_t>(10, 25 - i * 10));
      const std::string stem = directory + "/s" + std::to_string(i);
      is_tar ? write_tar(stem + ".tar", part) : write_tfrecord(stem + ".tfrecord", part);
    }
    for (std::size_t i = 0; i < samples.size(); ++i)
      made.samples.push_back(expected_of(
          samples[i], is_tar ? samples[i].key : "s" + number_of(i / 10) + "/" + number_of(i % 10)));
  } else if (made.name.starts_with("mds")) {
    const std::string compression = made.name.substr(3);
    write_mds(directory, samples, 10, compression);
    for (std::size_t i = 0; i < samples.size(); ++i)
      made.samples.push_back(
          expected_of(samples[i], "shard.0000" + number_of(i / 10) + "/" + number_of(i % 10)));
  } else if (made.name == "megatron") {
    const std::vector<std::size_t> lengths = {3, 0, 1, 4000, 2};
    write_megatron(directory + "/t", lengths);
    for (std::size_t i = 0; i < lengths.size(); ++i)
      made.samples.push_back({"t/" + number_of(i), {{"tokens", make_tokens(i, lengths[i])}}});
  } else {
    const auto format = parse_token_format(made.name);
    ASSERT_TRUE(format.ok()) << made.name;
    write_tokens(directory + "/t" + (made.name == "npy" ? ".npy" : ".bin"), *format, 7, 40);
    made.options.source = {.format = made.name, .dtype = Dtype::uint16};
    std::string all;
    for (std::size_t i = 0; i < 7; ++i) all += make_tokens(i, 40);
    const std::size_t rows = made.name == "raw" ? 1 : 7;
    for (std::size_t i = 0; i < rows; ++i)
      made.samples.push_back({"t/" + number_of(i),
                              {{"tokens", all.substr(i * all.size() / rows, all.size() / rows)}}});
  }
}

/// The first sample that is not as expected.
std::string compare(const ShardDataset& dataset, const std::vector<Expected>& expected,
                    std::span<const std::uint64_t> numbers) {
  SampleRecord record;
  for (const std::uint64_t i : numbers) {
    if (const Status status = dataset.read(i, record); !status.ok())
      return std::string(status.message());
    if (record.key() != expected[i].key)
      return "sample " + std::to_string(i) + " has the key " + record.key();
    if (fields_of(record.view()) != expected[i].fields)
      return "sample " + std::to_string(i) + " has other fields";
  }
  return "";
}

std::vector<std::uint64_t> shuffled(std::size_t count, unsigned seed) {
  std::vector<std::uint64_t> numbers(count);
  for (std::size_t i = 0; i < count; ++i) numbers[i] = i;
  std::shuffle(numbers.begin(), numbers.end(), std::mt19937(seed));
  return numbers;
}

class DatasetFormatTest : public ::testing::TestWithParam<const char*> {
 protected:
  DatasetFormatTest() { case_.name = GetParam(); }
  void SetUp() override { write_case(dir_.path(), case_); }
  std::shared_ptr<const ShardDataset> open(bool checksums = false) {
    case_.options.index.checksums = checksums;
    const std::string pattern = dir_.path();
    auto dataset = ShardDataset::open({&pattern, 1}, case_.options);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return dataset.ok() ? *dataset : nullptr;
  }

  const DatasetDir dir_;
  Case case_;
};

TEST_P(DatasetFormatTest, every_sample_reads_back_in_any_order) {
  for (const bool checksums : {false, true}) {
    const auto dataset = open(checksums);
    ASSERT_NE(dataset, nullptr);
    ASSERT_EQ(dataset->sample_count(), case_.samples.size());
    EXPECT_EQ(dataset->index().has_checksums(), checksums);
    EXPECT_EQ(compare(*dataset, case_.samples, shuffled(case_.samples.size(), 1)), "");
    SampleRecord record;
    EXPECT_EQ(dataset->read(case_.samples.size(), record).code(), Code::invalid_argument);
    EXPECT_TRUE(record.view().fields.empty()) << "left over from the sample before";
  }
}

TEST_P(DatasetFormatTest, threads_read_at_the_same_time) {
  const auto dataset = open();
  ASSERT_NE(dataset, nullptr);
  std::array<std::string, 4> problems;
  {
    std::vector<std::jthread> threads;
    for (unsigned i = 0; i < problems.size(); ++i)
      threads.emplace_back([&, i] {
        problems[i] = compare(*dataset, case_.samples, shuffled(case_.samples.size(), i));
      });
  }
  for (const std::string& problem : problems) EXPECT_EQ(problem, "");
}

TEST_P(DatasetFormatTest, a_forked_child_reads_while_the_parent_goes_on) {
  const auto dataset = open();
  ASSERT_NE(dataset, nullptr);
  std::atomic<bool> done{false};
  std::string problem;
  std::jthread parent([&] {  // at the fork it may be anywhere inside read()
    for (unsigned seed = 0; !done.load() && problem.empty(); ++seed)
      problem = compare(*dataset, case_.samples, shuffled(case_.samples.size(), seed));
  });
  if (!kMayForkAmidAllocations) {
    done = true;
    parent.join();
  }
  for (unsigned i = 0; i < 8; ++i) {
    const ChildEnd end = in_child([&] {
      return compare(*dataset, case_.samples, shuffled(case_.samples.size(), i)).empty() ? 0 : 1;
    });
    EXPECT_EQ(end.exit_code, 0) << end.signal;
  }
  done = true;
  if (parent.joinable()) parent.join();
  EXPECT_EQ(problem, "");
  EXPECT_EQ(compare(*dataset, case_.samples, shuffled(case_.samples.size(), 0)), "");
}

TEST_P(DatasetFormatTest, every_key_is_found) {
  const auto dataset = open();
  ASSERT_NE(dataset, nullptr);
  for (std::size_t i = 0; i < case_.samples.size(); ++i) {
    const auto found = find_key(*dataset, case_.samples[i].key);
    ASSERT_TRUE(found.ok()) << found.status().message();
    EXPECT_EQ(*found, i);
  }
  for (const char* key : {"", "t", "t/", "t/x", "t/99999", "s0/10", "nobody", "folder/0"})
    EXPECT_EQ(find_key(*dataset, key).status().code(), Code::not_found) << key;
}

INSTANTIATE_TEST_SUITE_P(formats, DatasetFormatTest,
                         ::testing::Values("tar", "tfrecord", "mds", "mdszstd", "mdsgz", "megatron",
                                           "npy", "raw", "counted", "shard001"),
                         [](const auto& test) { return std::string(test.param); });

class DatasetTest : public ::testing::Test {
 protected:
  std::shared_ptr<const ShardDataset> open(const std::string& pattern,
                                           const ShardDataset::Options& options = {}) {
    auto dataset = ShardDataset::open({&pattern, 1}, options);
    EXPECT_TRUE(dataset.ok()) << dataset.status().message();
    return dataset.ok() ? *dataset : nullptr;
  }
  const DatasetDir dir_;
};

TEST_F(DatasetTest, litdata_reads_the_same_however_it_was_compressed) {
  const std::array<std::array<const char*, 3>, 4> chunks = {
      {{kLitdataTreeChunk, kLitdataTreeIndex, "chunk-0-0.bin"},
       {kLitdataWholeChunk, kLitdataWholeIndex, "chunk-0-0.zstd:4.bin"},
       {kLitdataBatchChunk, kLitdataBatchIndex, "chunk-0-0.bin"},
       {kLitdataSampleChunk, kLitdataSampleIndex, "chunk-0-0.bin"}}};
  for (std::size_t i = 0; i < chunks.size(); ++i) {
    const std::string directory = dir_.file(std::to_string(i));
    write_litdata(directory, chunks[i][0], chunks[i][1], chunks[i][2]);
    const auto dataset = open(directory, {.index = {.checksums = true}});
    ASSERT_NE(dataset, nullptr);
    ASSERT_EQ(dataset->sample_count(), 3U);
    SampleRecord record;
    for (std::uint64_t k = 0; k < 3; ++k) {
      ASSERT_TRUE(dataset->read(k, record).ok());
      const Fields fields = fields_of(record.view());
      EXPECT_EQ(fields.at("b"), "hi" + std::to_string(k));
      EXPECT_EQ(fields.at("c"), "[\"x\",\"y\"]");
      EXPECT_TRUE(record.key().ends_with("/" + std::to_string(k))) << record.key();
    }
  }
}

TEST_F(DatasetTest, litdata_tokens_are_read) {
  write_litdata(dir_.path(), kLitdataTokensChunk, kLitdataTokensIndex, "chunk-0-0.bin");
  const auto dataset = open(dir_.path());
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->sample_count(), 2U);
  SampleRecord record;
  EXPECT_TRUE(dataset->read(1, record).ok());
}

TEST_F(DatasetTest, a_flipped_bit_is_found_and_named) {
  const std::string path = dir_.file("a.tar");
  write_tar(path, make_samples(20));
  ASSERT_NE(open(path, {.index = {.checksums = true}}), nullptr);
  const auto dataset = open(path);
  ASSERT_TRUE(dataset->index().has_checksums()) << "they are kept";
  const ByteRange bad = dataset->index().locate(7)->record;
  flip_bit(path, bad.offset_bytes + 512 + 1);
  SampleRecord record;
  EXPECT_TRUE(dataset->read(6, record).ok());
  const Status status = dataset->read(7, record);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_TRUE(status.message().starts_with(path + ": sample 7 at byte " +
                                           std::to_string(bad.offset_bytes) + ": "))
      << status.message();
  EXPECT_TRUE(record.view().fields.empty()) << "wrong bytes are not handed out";
  EXPECT_TRUE(record.key().empty());
  EXPECT_TRUE(dataset->read(8, record).ok());
}

TEST_F(DatasetTest, compressed_shards_are_checked_by_their_digests) {
  write_mds(dir_.path(), make_samples(20), 10, "zstd");
  const auto dataset = open(dir_.path());
  const std::string path = dir_.file("shard.00001.mds.zstd");
  flip_bit(path, 50);
  SampleRecord record;
  EXPECT_TRUE(dataset->read(9, record).ok());
  const Status status = dataset->read(10, record);
  EXPECT_EQ(status.code(), Code::corrupt);
  EXPECT_TRUE(status.message().starts_with(path + ": sample 10 at byte ")) << status.message();
}

TEST_F(DatasetTest, a_shard_replaced_after_opening_is_unavailable_until_opened_again) {
  for (const std::string kind : {"tar", "mdszstd"}) {
    const std::string directory = dir_.file(kind);
    std::filesystem::create_directories(directory);
    Case made{.name = kind};
    write_case(directory, made);
    const std::string path = directory + (kind == "tar" ? "/s1.tar" : "/shard.00001.mds.zstd");
    const auto dataset = open(directory);
    touch(path);
    SampleRecord record;
    EXPECT_TRUE(dataset->read(0, record).ok());
    const Status status = dataset->read(10, record);
    EXPECT_EQ(status.code(), Code::unavailable) << status.message();
    EXPECT_NE(status.message().find("open it again"), std::string_view::npos);
    EXPECT_TRUE(open(directory)->read(10, record).ok());
  }
}

TEST_F(DatasetTest, a_shard_that_was_open_when_it_was_replaced_goes_on) {
  write_tar(dir_.file("a.tar"), make_samples(5));
  const auto dataset = open(dir_.path());
  SampleRecord record;
  ASSERT_TRUE(dataset->read(0, record).ok());
  write_tar(dir_.file("new"), make_samples(3));
  std::filesystem::rename(dir_.file("new"), dir_.file("a.tar"));
  EXPECT_TRUE(dataset->read(4, record).ok()) << "the old file lives as long as it is open";
}

TEST_F(DatasetTest, more_shards_than_stay_open) {
  constexpr std::size_t kShards = 40;
  std::vector<Expected> expected;
  for (std::size_t i = 0; i < kShards; ++i) {
    const std::string stem = std::to_string(1000 + i);
    const std::vector<OwnedSample> samples = make_samples(2, i * 2);
    write_tar(dir_.file(stem + ".tar"), samples);
    for (const OwnedSample& sample : samples) expected.push_back(expected_of(sample, sample.key));
  }
  const auto dataset = open(dir_.path(), {.open_shards_max = 20});
  ASSERT_NE(dataset, nullptr);
  EXPECT_EQ(dataset->open_shards_max(), 20U);
  for (unsigned round = 0; round < 2; ++round)
    EXPECT_EQ(compare(*dataset, expected, shuffled(expected.size(), round)), "");
  EXPECT_EQ(dataset->lend_shard(19)->use_count(), 0) << "lent: the dataset's own";
  EXPECT_EQ(dataset->lend_shard(20)->use_count(), 1);
  EXPECT_EQ(open(dir_.path())->open_shards_max(), kShards);
}

TEST_F(DatasetTest, empty_shards_among_others_do_no_harm) {
  write_tar(dir_.file("a.tar"), {});
  write_tar(dir_.file("b.tar"), make_samples(2));
  write_tar(dir_.file("c.tar"), {});
  const auto dataset = open(dir_.path());
  ASSERT_EQ(dataset->sample_count(), 2U);
  SampleRecord record;
  ASSERT_TRUE(dataset->read(1, record).ok());
  EXPECT_EQ(record.key(), "folder/0001");
  EXPECT_EQ(dataset->describe(1).substr(0, dir_.file("b.tar").size()), dir_.file("b.tar"));
}

TEST_F(DatasetTest, the_cache_of_inflated_shards_keeps_the_last_few) {
  InflatedCache cache;
  const auto bytes = std::make_shared<const std::vector<std::byte>>(3);
  for (std::size_t shard = 0; shard <= InflatedCache::kShardsMax; ++shard) cache.put(shard, bytes);
  EXPECT_EQ(cache.find(0), nullptr);
  for (std::size_t shard = 1; shard <= InflatedCache::kShardsMax; ++shard)
    EXPECT_EQ(cache.find(shard), bytes);
  EXPECT_EQ(in_child([&] { return cache.find(1) == nullptr ? 0 : 1; }).exit_code, 0);
}

}  // namespace
}  // namespace stoker::testing
