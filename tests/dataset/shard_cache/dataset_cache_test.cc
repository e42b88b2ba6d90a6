// Datasets that are read through a cache.
#include "dataset/fetch_support.h"
#include "dataset/loader/loader_cache.h"
#include "dataset/loader_support.h"
#include "dataset/shard_cache/cache_support.h"
#include "dataset/shard_cache/epoch_bytes.h"

namespace stoker::testing {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;

LoaderRunOptions epochs_of(const std::shared_ptr<const ShardDataset>& dataset, std::uint64_t epochs,
                           std::uint64_t batch = 4) {
  LoaderRunOptions options;
  const OrderOptions order{
      .shuffle = Shuffle::global, .seed = 7, .sample_count = dataset->sample_count()};
  options.cursor.order = *resolve_order(order);
  options.cursor.fingerprint = dataset->index().fingerprint();
  options.order = *make_order(options.cursor.order);
  options.datasets = {dataset};
  options.cut = {.global_batch_size = batch};
  options.end_epoch = epochs;
  options.memory_bytes = 64 * kMiB;
  options.threads = 2;
  return options;
}

class CachedFormatTest : public ::testing::TestWithParam<const char*> {};

TEST_P(CachedFormatTest, batches_are_those_of_the_directory_and_the_second_run_reads_the_disk) {
  const DatasetDir dir;
  const TempDir cache_dir;
  ShardDataset::Options options = write_dataset(dir.path(), GetParam());
  const auto here = open_dataset(dir.path(), options);
  ASSERT_TRUE(here);
  const auto store = std::make_shared<MemoryStore>();
  copy_files(dir.path(), *store, "bucket/data");
  const std::vector<std::string> expected = all_batches(epochs_of(here, 2, 2));
  for (int run = 0; run < 2; ++run) {
    options.source.store = store;
    options.cache = open_cache(cache_dir.file("cache"));
    const auto there = open_dataset("bucket/data", options);
    ASSERT_TRUE(there);
    EXPECT_EQ(all_batches(epochs_of(there, 2, 2)), expected);
    const CacheStats stats = options.cache->stats();
    EXPECT_EQ(stats.passes, 0U);
    EXPECT_EQ(stats.fetches > 0, run == 0);
    EXPECT_GT(stats.hits + stats.fetches, 0U);
    EXPECT_TRUE(options.cache->trouble().ok()) << options.cache->trouble().message();
    for (std::uint64_t i = 0; i < there->sample_count(); ++i) {
      SampleRecord a;
      SampleRecord b;
      ASSERT_TRUE(there->read(i, a).ok());
      ASSERT_TRUE(here->read(i, b).ok());
      EXPECT_EQ(fields_of(a.view()), fields_of(b.view()));
    }
  }
}

INSTANTIATE_TEST_SUITE_P(formats, CachedFormatTest,
                         ::testing::Values("tar", "tfrecord", "mds", "mdszstd", "litdata",
                                           "litdatazstd", "megatron", "npy"),
                         [](const auto& test) { return std::string(test.param); });

/// Tars of samples of about 100 KiB, in memory: more than the smallest cache.
struct BigTars {
  explicit BigTars(std::size_t shards = 3, std::size_t per_shard = 160,
                   std::size_t image_bytes = 100'000) {
    for (std::size_t i = 0; i < shards; ++i) {
      std::vector<OwnedSample> samples;
      for (std::size_t k = 0; k < per_shard; ++k)
        samples.push_back(make_sample(i * per_shard + k, image_bytes + k * 37));
      MemorySink sink;
      write_with(*make_webdataset_writer(sink), samples);
      put_object(*store, "data/s" + std::to_string(i) + ".tar", sink.bytes);
      bytes += sink.bytes.size();
    }
  }
  std::shared_ptr<const ShardDataset> open(const std::shared_ptr<ShardCache>& cache) const {
    ShardDataset::Options options;
    options.source.store = store;
    options.cache = cache;
    options.index.checksums = true;
    return open_dataset("data", options);
  }

  const std::shared_ptr<MemoryStore> store = std::make_shared<MemoryStore>();
  std::uint64_t bytes = 0;
};

TEST(DatasetUnitsTest, units_of_records_tile_each_shard_and_know_their_samples) {
  for (const std::size_t image_bytes : {100, 5'000, 100'000}) {
    const BigTars data(2, 300, image_bytes);
    const auto dataset = data.open(nullptr);
    ASSERT_TRUE(dataset);
    const DatasetUnits units(dataset->source(), dataset->index());
    for (std::size_t shard = 0; shard < 2; ++shard) {
      const ShardFile& file = dataset->source().shards()[shard];
      const Digest128 object = object_id("memory:" + file.path,
                                         {.size_bytes = file.size_bytes, .version = file.mtime_ns});
      std::uint64_t at = 0;
      std::uint64_t samples = 0;
      while (at < file.size_bytes) {
        const FetchUnits::Unit unit = units.record_unit(shard, at, file.size_bytes);
        ASSERT_EQ(unit.offset_bytes, at);
        ASSERT_GT(unit.size_bytes, 0U);
        const FetchUnits::Unit same =
            units.record_unit(shard, at + unit.size_bytes - 1, file.size_bytes);
        ASSERT_EQ(same.offset_bytes, at) << "every byte of a unit leads to it";
        const auto range =
            units.samples_of({.object = object,
                              .offset_bytes = at,
                              .size_bytes = static_cast<std::uint32_t>(unit.size_bytes)});
        ASSERT_TRUE(range.has_value());
        for (std::uint64_t i = 0; i < range->count; ++i) {
          const ByteRange record = dataset->index().locate(range->first + i)->record;
          EXPECT_LT(record.offset_bytes, at + unit.size_bytes);
          EXPECT_GT(record.end_bytes(), at);
        }
        samples += range->count;
        at += unit.size_bytes;
      }
      EXPECT_EQ(at, file.size_bytes);
      EXPECT_EQ(samples, 300U) << "each sample is in one unit, none is left out";
    }
    EXPECT_GE(units.mean_record_unit_bytes(), static_cast<double>(image_bytes));
    EXPECT_FALSE(units.samples_of({.object = {.low = 1, .high = 2}, .size_bytes = 1}));
  }
}

TEST(DatasetCacheTest, data_that_does_not_fit_is_cached_by_records_and_the_cache_pays_in_full) {
  const BigTars data;  // 48 MiB
  const TempDir dir;
  const auto cache = open_cache(dir.file("cache"), ShardCache::kSizeMin);
  const auto dataset = data.open(cache);
  ASSERT_TRUE(dataset);
  ASSERT_GT(data.bytes, cache->options().size_bytes);
  const auto plain = data.open(nullptr);
  const std::vector<std::string> expected = all_batches(epochs_of(plain, 3, 16));
  EXPECT_EQ(all_batches(epochs_of(dataset, 3, 16)), expected);
  EXPECT_EQ(dataset->cache_units()->unit(), FetchUnit::records);
  const CacheStats stats = cache->stats();
  EXPECT_LE(bytes_below(dir.file("cache/chunks")), cache->options().size_bytes);
  EXPECT_TRUE(cache->trouble().ok()) << cache->trouble().message();
  // The first epoch reads everything, the two others what had no room.
  const std::uint64_t least = data.bytes + 2 * (data.bytes - cache->options().size_bytes);
  const std::uint64_t read = stats.fetched_bytes + stats.passed_bytes;
  EXPECT_LE(read, least + least / 10);
  EXPECT_GE(read, data.bytes);
}

TEST(DatasetCacheTest, data_that_fits_is_fetched_once_in_chunks) {
  const BigTars data;
  const TempDir dir;
  const auto cache = open_cache(dir.file("cache"), 100 * kMiB);
  const auto dataset = data.open(cache);
  ASSERT_TRUE(dataset);
  all_batches(epochs_of(dataset, 2, 16));
  EXPECT_EQ(dataset->cache_units()->unit(), FetchUnit::chunks);
  EXPECT_LE(cache->stats().fetched_bytes, data.bytes);
  EXPECT_EQ(cache->stats().passed_bytes, 0U);
  EXPECT_LE(files_below(dir.file("cache/chunks")).size(), data.bytes / ChunkId::kSizeMax + 3);
}

TEST(ExpectedBytesTest, the_unit_and_the_bytes_follow_from_order_and_cache) {
  EpochQuestion question{.dataset_bytes = 1000 * kMiB,
                         .sample_count = 10'000,
                         .record_unit_bytes = 0.1 * kMiB,
                         .cache_bytes = 2000 * kMiB};
  EXPECT_EQ(expected_bytes(question).unit, FetchUnit::chunks);
  EXPECT_EQ(expected_bytes(question).first_bytes, 1000 * kMiB);
  EXPECT_EQ(expected_bytes(question).later_bytes, 0U);
  question.cache_bytes = 250 * kMiB;
  const EpochAnswer random = expected_bytes(question);
  EXPECT_EQ(random.unit, FetchUnit::records);
  EXPECT_EQ(random.first_bytes, 1000 * kMiB);
  EXPECT_EQ(random.later_bytes, 750 * kMiB);
  EXPECT_EQ(describe(question, random).find("block"), std::string::npos);
  question.shuffle = Shuffle::block;
  question.share = 0.25;
  const EpochAnswer block = expected_bytes(question);
  EXPECT_EQ(block.unit, FetchUnit::chunks);
  EXPECT_EQ(block.first_bytes, 250 * kMiB);
}

TEST(ExpectedBytesTest, small_samples_in_random_order_are_said_to_cost_more_than_their_bytes) {
  const EpochQuestion question{.dataset_bytes = 1000 * kMiB,
                               .sample_count = 1'000'000,
                               .record_unit_bytes = 64 << 10,
                               .cache_bytes = 250 * kMiB};
  const EpochAnswer answer = expected_bytes(question);
  EXPECT_NEAR(answer.excess, 62.5 * 0.75, 1);
  EXPECT_NE(describe(question, answer).find("shuffle=\"block\""), std::string::npos);
}

}  // namespace
}  // namespace stoker::testing
