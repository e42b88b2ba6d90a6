// Datasets whose files lie in a store that is no directory: a toy in memory.
#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <thread>

#include "dataset/fetch_support.h"
#include "dataset/key_search.h"
#include "dataset/loader_support.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/verify.h"
#include "store/toys/memory_store.h"

namespace stoker::testing {
namespace {

constexpr const char* kFolder = "bucket/data";

ShardDataset::Options in_store(std::shared_ptr<ObjectStore> store,
                               ShardDataset::Options options = {}) {
  options.source.store = std::move(store);
  return options;
}

/// Everything in one shuffled epoch, or from a cursor on.
LoaderRunOptions run_of(std::vector<std::shared_ptr<const ShardDataset>> datasets) {
  LoaderRunOptions options;
  const OrderOptions order{
      .shuffle = Shuffle::global, .seed = 7, .sample_count = datasets[0]->sample_count()};
  options.cursor.order = *resolve_order(order);
  options.cursor.fingerprint = datasets[0]->index().fingerprint();
  options.order = *make_order(*resolve_order(order));
  options.datasets = std::move(datasets);
  options.cut = {.global_batch_size = std::min<std::uint64_t>(order.sample_count / 2, 4)};
  options.memory_bytes = std::size_t{64} << 20;
  options.threads = 2;
  return options;
}

/// The same files twice: in a directory, and in memory.
struct TwoPlaces {
  explicit TwoPlaces(const std::string& format, const MemoryStore::Fault& fault = {},
                     const std::string& identity = {})
      : store(std::make_shared<MemoryStore>(fault, identity)) {
    options = write_dataset(dir.path(), format);
    options.index.checksums = true;
    copy_files(dir.path(), *store, kFolder);
    here = open_dataset(dir.path(), options);
    there = open_dataset(kFolder, in_store(store, options));
  }

  const DatasetDir dir;
  const std::shared_ptr<MemoryStore> store;
  ShardDataset::Options options;
  std::shared_ptr<const ShardDataset> here;
  std::shared_ptr<const ShardDataset> there;
};

class DatasetStoreTest : public ::testing::TestWithParam<const char*> {};

TEST_P(DatasetStoreTest, every_sample_is_the_one_of_the_directory) {
  const TwoPlaces data(GetParam());
  ASSERT_TRUE(data.here && data.there);
  EXPECT_EQ(data.there->source().format(), data.here->source().format());
  ASSERT_EQ(data.there->sample_count(), data.here->sample_count());
  EXPECT_EQ(data.there->index().fingerprint(), data.here->index().fingerprint());
  SampleRecord here;
  SampleRecord there;
  for (std::uint64_t i = 0; i < data.here->sample_count(); ++i) {
    ASSERT_TRUE(data.here->read(i, here).ok());
    const Status status = data.there->read(i, there);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(there.key(), here.key());
    EXPECT_EQ(fields_of(there.view()), fields_of(here.view()));
    EXPECT_EQ(*find_key(*data.there, here.key()), *find_key(*data.here, here.key()));
  }
  const auto fetcher = make_fetcher(data.there);
  const auto samples = all_samples(*data.there);
  EXPECT_EQ(compare(*data.here, samples, fetch(*fetcher, samples)), "");
  const FetchCounters counters = fetcher->counters();
  EXPECT_EQ(counters.page_cache_bytes + counters.buffered_bytes + counters.direct_bytes, 0U);
  EXPECT_GT(counters.store_bytes + counters.inflated_bytes, 0U);
}

TEST_P(DatasetStoreTest, a_loader_gives_the_batches_of_the_directory_also_from_a_cursor_on) {
  const TwoPlaces data(GetParam());
  ASSERT_TRUE(data.here && data.there);
  const std::vector<std::string> expected = all_batches(run_of({data.here}));
  EXPECT_EQ(all_batches(run_of({data.there})), expected);
  ASSERT_GT(expected.size(), 1U);

  LoaderRunOptions options = run_of({data.there});
  {
    const auto loader = start_loader(options);
    const NextBatch first = loader->next();
    ASSERT_EQ(first.kind, Kind::batch) << first.status.message();
    options.cursor = first.batch.cursor();
  }
  const auto resumed = start_loader(options);
  for (std::size_t i = 1; i < expected.size(); ++i) {
    const NextBatch next = resumed->next();
    ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
    EXPECT_EQ(written_down(next.batch), expected[i]);
  }
}

TEST(DatasetStoreTimeTest, a_store_that_stalls_is_seen_in_the_statistics) {
  std::atomic<bool> is_held{false};
  std::atomic<std::int64_t> held_ns{0};
  const TwoPlaces data("tar", [&](const Object&, std::uint64_t, std::size_t) {
    const Deadline begun = Clock::now();
    while (is_held) std::this_thread::yield();
    held_ns = std::max<std::int64_t>(held_ns, (Clock::now() - begun).count());
    return 0;
  });
  ASSERT_TRUE(data.there);
  is_held = true;
  const auto loader = start_loader(run_of({data.there}));
  EXPECT_EQ(loader->next(deadline_after(std::chrono::milliseconds(20))).kind, Kind::timeout);
  is_held = false;
  while (loader->next().kind == Kind::batch) {
  }
  EXPECT_GT(held_ns, 0);
  EXPECT_GE(loader->stats().fetch.store_time.count(), held_ns);
  const auto here = start_loader(run_of({data.here}));
  while (here->next().kind == Kind::batch) {
  }
  EXPECT_EQ(here->stats().fetch.store_time.count(), 0);
  EXPECT_EQ(here->stats().waited_in[static_cast<std::size_t>(LoaderStage::store)].count(), 0);
}

TEST_P(DatasetStoreTest, an_index_goes_to_the_cache_directory_or_stays_in_memory) {
  const TwoPlaces data(GetParam(), {}, "memory of one");
  ASSERT_TRUE(data.there);
  EXPECT_EQ(data.there->index_path(), "");
  EXPECT_EQ(data.there->index_refused().code(), Code::unsupported);
  const TempDir cache;
  ShardDataset::Options options = in_store(data.store, data.options);
  options.index.cache_directory = cache.path();
  const auto first = open_dataset(kFolder, options);
  ASSERT_TRUE(first);
  EXPECT_TRUE(first->index_path().starts_with(cache.path())) << first->index_path();
  const auto written = std::filesystem::last_write_time(first->index_path());
  const auto second = open_dataset(kFolder, options);
  EXPECT_EQ(second->index_path(), first->index_path());
  EXPECT_EQ(std::filesystem::last_write_time(second->index_path()), written);
  EXPECT_FALSE(std::filesystem::exists(kFolder));
}

TEST_P(DatasetStoreTest, stores_with_equal_keys_have_indexes_of_their_own) {
  const TwoPlaces one(GetParam(), {}, "memory of one");
  const TwoPlaces other(GetParam(), {}, "memory of another");
  const TwoPlaces unknown(GetParam());
  const TempDir cache;
  const auto open_in = [&](const TwoPlaces& data) {
    ShardDataset::Options options = in_store(data.store, data.options);
    options.index.cache_directory = cache.path();
    return open_dataset(kFolder, options);
  };
  const auto first = open_in(one);
  const auto second = open_in(other);
  const auto third = open_in(unknown);
  ASSERT_TRUE(first && second && third);
  EXPECT_NE(first->index_path(), "");
  EXPECT_NE(second->index_path(), "");
  EXPECT_NE(first->index_path(), second->index_path());
  EXPECT_EQ(third->index_path(), "");  // without an identity nothing is shared
}

INSTANTIATE_TEST_SUITE_P(formats, DatasetStoreTest,
                         ::testing::Values("tar", "tfrecord", "mds", "mdszstd", "litdata",
                                           "litdatazstd", "megatron", "npy"),
                         [](const auto& test) { return std::string(test.param); });

TEST(DatasetInStoreTest, shards_are_named_by_braces_and_globs) {
  const TwoPlaces data("tar");
  for (const char* pattern : {"bucket/data/*.tar", "bucket/*/s?.tar", "bucket/data/s{0..2}.tar"}) {
    const auto dataset = open_dataset(pattern, in_store(data.store));
    ASSERT_TRUE(dataset) << pattern;
    EXPECT_EQ(dataset->sample_count(), 25U);
  }
  const std::string absent = "bucket/data/s9.tar";
  const Status status = ShardDataset::open({&absent, 1}, in_store(data.store)).status();
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_NE(status.message().find(absent), std::string_view::npos) << status.message();
}

TEST(DatasetInStoreTest, token_windows_are_those_of_the_directory) {
  const TwoPlaces data("npy");
  const auto batches = [](const std::shared_ptr<const ShardDataset>& dataset, bool is_packed) {
    LoaderRunOptions options = run_of({dataset});
    std::uint64_t count = 0;
    if (is_packed) {
      auto bins = TokenBins::open(dataset, {.length = 50});
      EXPECT_TRUE(bins.ok()) << bins.status().message();
      count = bins->count();
      options.packs = {std::make_shared<const TokenBins>(*std::move(bins))};
    } else {
      auto windows = TokenWindows::make(*dataset, {.window = 16, .extra = 1});
      EXPECT_TRUE(windows.ok()) << windows.status().message();
      count = windows->count();
      options.windows = {std::make_shared<const TokenWindows>(*std::move(windows))};
    }
    options.order = *make_order({.shuffle = Shuffle::global, .seed = 5, .sample_count = count});
    return all_batches(options);
  };
  for (const bool is_packed : {false, true}) {
    const std::vector<std::string> expected = batches(data.here, is_packed);
    EXPECT_GT(expected.size(), 1U);
    EXPECT_EQ(batches(data.there, is_packed), expected);
  }
}

TEST(DatasetInStoreTest, a_mixture_of_a_directory_and_two_stores_is_one_of_three_directories) {
  const TwoPlaces tar("tar");
  const TwoPlaces mds("mds");
  const TwoPlaces other("tar");
  const MixtureOptions mixture{.order = {.shuffle = Shuffle::global, .seed = 3},
                               .parts = {{25, 0.5}, {25, 0.3}, {25, 0.2}}};
  const auto batches = [&](std::vector<std::shared_ptr<const ShardDataset>> datasets) {
    LoaderRunOptions options = run_of(std::move(datasets));
    options.order = *make_mixture_order(mixture);
    return all_batches(options);
  };
  const std::vector<std::string> expected = batches({tar.here, mds.here, other.here});
  EXPECT_GT(expected.size(), 10U);
  EXPECT_EQ(batches({tar.here, mds.there, other.there}), expected);
  EXPECT_EQ(batches({tar.there, mds.there, other.here}), expected);
}

TEST(DatasetInStoreTest, a_range_that_cannot_be_read_costs_its_sample_only) {
  std::atomic<std::uint64_t> bad_at{UINT64_MAX};
  const auto fault = [&](const Object& object, std::uint64_t offset, std::size_t size) {
    const bool covers = offset <= bad_at && bad_at < offset + size;
    return covers && object.key().ends_with("s1.tar") ? EIO : 0;
  };
  const TwoPlaces data("tar", fault);
  constexpr std::uint64_t kBad = 14;
  const ByteRange bad = data.there->index().locate(kBad)->record;
  bad_at = bad.offset_bytes + bad.size_bytes / 2;
  const auto fetcher = make_fetcher(data.there);
  const auto samples = all_samples(*data.there);  // neighbours: one merged range at first
  const Fetched fetched = fetch(*fetcher, samples);
  ASSERT_TRUE(fetched.status.ok()) << fetched.status.message();
  for (std::uint64_t i = 0; i < samples.size(); ++i) {
    const Status& status = fetched.records[i].status;
    EXPECT_EQ(status.code(), i == kBad ? Code::io_error : Code::ok) << i << status.message();
  }
  const std::string message(fetched.records[kBad].status.message());
  EXPECT_EQ(message.find(data.there->describe(kBad)), 0U) << message;

  LoaderRunOptions options = run_of({data.there});
  options.on_error = OnError::skip;
  const auto loader = start_loader(options);
  std::size_t replaced = 0;
  for (NextBatch next = loader->next(); next.kind == Kind::batch; next = loader->next())
    for (const SampleRef& sample : next.batch.samples()) replaced += sample.sample == kBad ? 0 : 1;
  EXPECT_EQ(replaced, 24U) << "all batches, and the bad sample in none";
  EXPECT_EQ(loader->stats().replaced, 1U);
}

TEST(DatasetInStoreTest, an_object_that_was_replaced_since_is_refused) {
  const TwoPlaces data("tar");
  const std::string key = std::string(kFolder) + "/s1.tar";
  auto upload = data.store->upload(key);
  ASSERT_TRUE((*upload)->append(std::as_bytes(std::span("other"))).ok());
  ASSERT_TRUE(std::move(**upload).commit().ok());
  SampleRecord record;
  EXPECT_TRUE(data.there->read(3, record).ok());
  const Status status = data.there->read(13, record);
  EXPECT_EQ(status.code(), Code::unavailable) << status.message();
  EXPECT_NE(status.message().find(key), std::string_view::npos) << status.message();
}

TEST(DatasetInStoreTest, what_was_packed_is_verified_and_held_to_its_manifest) {
  const TwoPlaces data("tar");
  const TempDir packed;
  const auto input = make_dataset_input(data.here);
  ASSERT_TRUE(input.ok());
  PackOptions pack_options;
  pack_options.plan.format = "tar";
  pack_options.plan.samples_per_shard = 5;
  ASSERT_TRUE(pack(posix_file_ops(), **input, packed.file("out"), pack_options).ok());
  copy_files(packed.file("out"), *data.store, "packed");
  const auto dataset = open_dataset("packed", in_store(data.store));
  ASSERT_TRUE(dataset);
  EXPECT_EQ(dataset->sample_count(), 25U);
  const auto report = verify_shards("packed", {}, data.store);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_TRUE(report->has_manifest);
  EXPECT_EQ(report->sample_count, 25U);
  EXPECT_TRUE(report->problems.empty()) << report->problems.front().message;

  const std::string lost = dataset->source().shards()[2].path;
  ASSERT_TRUE(data.store->remove(lost).ok());
  const std::string name = "packed";
  const Status status = ShardDataset::open({&name, 1}, in_store(data.store)).status();
  EXPECT_EQ(status.code(), Code::not_found);
  EXPECT_NE(status.message().find(lost), std::string_view::npos) << status.message();
  EXPECT_FALSE(verify_shards("packed", {}, data.store)->problems.empty());
}

}  // namespace
}  // namespace stoker::testing
