#include "dataset/fetch/record_fetch.h"

#include <gtest/gtest.h>

#include <random>

#include "dataset/fetch_support.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

constexpr std::array kEngines = {EngineKind::uring, EngineKind::threads, EngineKind::sync};
constexpr std::array kPolicies = {CachePolicy::automatic, CachePolicy::buffered,
                                  CachePolicy::direct, CachePolicy::drop_behind};

bool has_engine(EngineKind kind) {
  return kind != EngineKind::uring || probe_engine().kind == EngineKind::uring;
}

/// Twice as many as there are samples, in no order, some of them several times.
std::vector<SampleRef> any_samples(const ShardDataset& dataset, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<SampleRef> refs(2 * dataset.sample_count());
  for (SampleRef& ref : refs) ref.sample = random() % dataset.sample_count();
  return refs;
}

class RecordFetchFormatTest : public ::testing::TestWithParam<const char*> {
 protected:
  const DatasetDir dir_;
};

TEST_P(RecordFetchFormatTest, every_record_is_what_the_dataset_reads_on_every_path) {
  ShardDataset::Options options = write_dataset(dir_.path(), GetParam());
  const bool can_direct = has_direct_reads(dir_.path());
  for (const CachePolicy policy : kPolicies) {
    if (policy == CachePolicy::direct && !can_direct) continue;
    options.policy = policy;
    options.index.checksums = policy != CachePolicy::buffered;
    const auto dataset = open_dataset(dir_.path(), options);
    ASSERT_NE(dataset, nullptr);
    for (const EngineKind engine : kEngines) {
      if (!has_engine(engine)) continue;
      const auto fetcher = make_fetcher(dataset, {.engine = engine, .gap_bytes = 700});
      for (unsigned round = 0; round < 4; ++round) {
        round % 2 == 0 ? make_cold(dir_.path()) : make_warm(dir_.path());
        const std::vector<SampleRef> samples =
            round < 2 ? all_samples(*dataset) : any_samples(*dataset, round);
        const Fetched fetched = fetch(*fetcher, samples);
        ASSERT_EQ(compare(*dataset, samples, fetched), "")
            << cache_policy_name(policy) << ", " << engine_kind_name(engine) << ", " << round;
      }
      EXPECT_EQ(fetcher->counters().failure_count, 0U);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(formats, RecordFetchFormatTest,
                         ::testing::Values("tar", "tfrecord", "mds", "mdszstd", "mdsgz", "megatron",
                                           "npy", "raw", "counted", "shard001", "litdata",
                                           "litdatazstd"),
                         [](const auto& test) { return std::string(test.param); });

class RecordFetchTest : public ::testing::Test {
 protected:
  /// One tar of `count` samples of 3000 bytes and more each.
  std::shared_ptr<const ShardDataset> open_tar(std::size_t count,
                                               const ShardDataset::Options& options = {}) {
    std::vector<OwnedSample> samples;
    for (std::size_t i = 0; i < count; ++i) samples.push_back(make_sample(i, 3000 + i % 5 * 100));
    write_tar(path_, samples);
    return open_dataset(path_, options);
  }

  const DatasetDir dir_;
  const std::string path_ = dir_.file("a.tar");
};

TEST_F(RecordFetchTest, cold_records_come_past_the_page_cache_and_warm_ones_from_it) {
  if (!has_direct_reads(dir_.path())) GTEST_SKIP() << "no direct reads on this filesystem";
  const auto dataset = open_tar(100);
  const auto samples = any_samples(*dataset, 1);
  make_cold(dir_.path());
  const auto fetcher = make_fetcher(dataset, {.look_after_bytes = 0});
  ASSERT_TRUE(fetch(*fetcher, samples).status.ok());
  const FetchCounters cold = fetcher->counters();
  EXPECT_GT(cold.direct_reads, 0U);
  EXPECT_EQ(cold.page_cache_reads, 0U);
  EXPECT_EQ(cold.record_count, samples.size());
  EXPECT_EQ(residency((*dataset->lend_shard(0))->file()->buffered_fd())->resident_bytes, 0U);
  make_warm(dir_.path());
  ASSERT_TRUE(fetch(*fetcher, samples).status.ok());
  const FetchCounters warm = fetcher->counters();
  EXPECT_EQ(warm.direct_reads, cold.direct_reads);
  EXPECT_GT(warm.page_cache_reads, 0U);
}

TEST_F(RecordFetchTest, a_shard_that_is_half_there_is_read_both_ways) {
  if (!has_direct_reads(dir_.path())) GTEST_SKIP() << "no direct reads on this filesystem";
  const auto dataset = open_tar(600);
  const File& file = *(*dataset->lend_shard(0))->file();
  make_cold(dir_.path());
  // Random access: no read-ahead beyond what is asked for.
  ASSERT_EQ(::posix_fadvise(file.buffered_fd(), 0, 0, POSIX_FADV_RANDOM), 0);
  std::vector<char> head(file.size_bytes() / 2);
  ASSERT_EQ(::pread(file.buffered_fd(), head.data(), head.size(), 0), std::ssize(head));
  const auto fetcher = make_fetcher(dataset);
  const auto samples = all_samples(*dataset);
  EXPECT_EQ(compare(*dataset, samples, fetch(*fetcher, samples)), "");
  EXPECT_GT(fetcher->counters().direct_bytes, file.size_bytes() / 4);
  EXPECT_GT(fetcher->counters().page_cache_bytes, file.size_bytes() / 4);
}

TEST_F(RecordFetchTest, residency_is_looked_at_now_and_then_and_not_for_each_sample) {
  const auto dataset = open_tar(500);  // more than 1 MiB
  make_warm(dir_.path());
  const auto fetcher = make_fetcher(dataset, {.look_after_bytes = 64 << 10});
  const auto samples = any_samples(*dataset, 3);
  ASSERT_TRUE(fetch(*fetcher, samples).status.ok());
  const FetchCounters counters = fetcher->counters();
  EXPECT_EQ(counters.record_count, samples.size());
  EXPECT_LT(counters.residency_looks, 64U);
}

TEST_F(RecordFetchTest, neighbours_are_read_at_once) {
  const auto dataset = open_tar(100);
  const auto samples = all_samples(*dataset);
  for (const CachePolicy policy : {CachePolicy::buffered, CachePolicy::direct}) {
    if (policy == CachePolicy::direct && !has_direct_reads(dir_.path())) continue;
    const auto opened = open_dataset(path_, {.policy = policy});
    make_warm(dir_.path());
    const auto fetcher = make_fetcher(opened);
    EXPECT_EQ(compare(*opened, samples, fetch(*fetcher, samples)), "");
    const FetchCounters counters = fetcher->counters();
    EXPECT_LE(counters.page_cache_reads + counters.direct_reads, 2U) << cache_policy_name(policy);
  }
}

TEST_F(RecordFetchTest, a_gap_is_read_along_if_it_is_small) {
  if (!has_direct_reads(dir_.path())) GTEST_SKIP() << "no direct reads on this filesystem";
  open_tar(100);
  const auto dataset = open_dataset(path_, {.policy = CachePolicy::direct});
  std::vector<SampleRef> samples;
  for (std::uint64_t i = 0; i < 100; i += 2) samples.push_back({.sample = i});
  const auto wide = make_fetcher(dataset, {.gap_bytes = 8192});
  EXPECT_EQ(compare(*dataset, samples, fetch(*wide, samples)), "");
  EXPECT_EQ(wide->counters().direct_reads, 1U);
  const auto narrow = make_fetcher(dataset, {.gap_bytes = 512});
  EXPECT_EQ(compare(*dataset, samples, fetch(*narrow, samples)), "");
  EXPECT_EQ(narrow->counters().direct_reads, 50U);
}

TEST_F(RecordFetchTest, a_sample_that_comes_twice_is_read_once) {
  const auto dataset = open_tar(10);
  const auto fetcher = make_fetcher(dataset);
  const std::vector<SampleRef> samples = refs_of(std::array<std::uint64_t, 4>{7, 3, 7, 7});
  const Fetched fetched = fetch(*fetcher, samples);
  EXPECT_EQ(compare(*dataset, samples, fetched), "");
  EXPECT_EQ(fetched.records[0].bytes.data(), fetched.records[2].bytes.data());
  const FetchCounters counters = fetcher->counters();
  EXPECT_EQ(counters.page_cache_reads + counters.buffered_reads + counters.direct_reads, 2U);
}

TEST_F(RecordFetchTest, a_large_record_is_read_in_pieces) {
  for (const CachePolicy policy : {CachePolicy::buffered, CachePolicy::direct}) {
    if (policy == CachePolicy::direct && !has_direct_reads(dir_.path())) continue;
    write_tar(path_, std::array{make_sample(0, 100), make_sample(1, 1 << 20), make_sample(2, 100)});
    const auto dataset = open_dataset(path_, {.index = {.checksums = true}, .policy = policy});
    for (const EngineKind engine : kEngines) {
      if (!has_engine(engine)) continue;
      make_cold(dir_.path());
      const auto fetcher = make_fetcher(
          dataset, {.engine = engine, .engine_options = {.depth = 4}, .piece_bytes = 64 << 10});
      const auto samples = refs_of(std::array<std::uint64_t, 1>{1});
      EXPECT_EQ(compare(*dataset, samples, fetch(*fetcher, samples)), "");
      const FetchCounters counters = fetcher->counters();
      if (policy == CachePolicy::direct) {
        EXPECT_GE(counters.direct_reads, 16U);
      }
    }
  }
}

TEST_F(RecordFetchTest, what_alignment_adds_to_a_record_stays_in_its_room) {
  if (!has_direct_reads(dir_.path())) GTEST_SKIP() << "no direct reads on this filesystem";
  write_tfrecord(dir_.file("a.tfrecord"), make_samples(30));  // nothing in it is aligned
  const auto dataset = open_dataset(dir_.file("a.tfrecord"), {.policy = CachePolicy::direct});
  const auto fetcher = make_fetcher(dataset);
  for (const SampleRef& sample : all_samples(*dataset))
    EXPECT_EQ(compare(*dataset, {&sample, 1}, fetch(*fetcher, {&sample, 1})), "");
}

TEST_F(RecordFetchTest, the_memory_of_a_plan_has_a_bound_known_in_advance) {
  const auto dataset = open_tar(200);
  const FetchOptions options;
  for (unsigned seed = 0; seed < 8; ++seed) {
    const auto samples = any_samples(*dataset, seed);
    const std::span<const SampleRef> some = std::span(samples).first(1 + seed * 20);
    for (const bool is_warm : {true, false}) {
      is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
      FetchPlan plan;
      ASSERT_TRUE(make_fetcher(dataset, options)->plan(some, plan).ok());
      EXPECT_LE(plan.memory_bytes, RecordFetcher::memory_bytes_max(*dataset, some.size(), options));
    }
  }
  EXPECT_EQ(RecordFetcher::memory_bytes_max(*dataset, ~std::uint64_t{0}, options),
            ~std::uint64_t{0});
}

TEST_F(RecordFetchTest, what_does_not_exist_is_refused) {
  const auto dataset = open_tar(3);
  const auto fetcher = make_fetcher(dataset);
  FetchPlan plan;
  EXPECT_EQ(fetcher->plan(std::array{SampleRef{.sample = 3}}, plan).code(), Code::invalid_argument);
  EXPECT_EQ(fetcher->plan(std::array{SampleRef{.dataset = 1}}, plan).code(),
            Code::invalid_argument);
  ASSERT_TRUE(fetcher->plan(std::array{SampleRef{}}, plan).ok());
  GuardedMemory memory(plan.memory_bytes);
  std::vector<FetchedRecord> out(1);
  EXPECT_EQ(fetcher->read(plan, memory.bytes().first(plan.memory_bytes - 1), out).code(),
            Code::invalid_argument);
  EXPECT_EQ(fetcher->read(plan, memory.more_than_enough().subspan(1), out).code(),
            Code::invalid_argument);
  EXPECT_EQ(fetcher->read(plan, memory.bytes(), {}).code(), Code::invalid_argument);
  EXPECT_FALSE(RecordFetcher::make({}, {}).ok());
  EXPECT_FALSE(RecordFetcher::make({dataset}, {.piece_bytes = 1000}).ok());
}

TEST_F(RecordFetchTest, datasets_of_a_mixture_do_not_get_mixed_up) {
  write_tar(dir_.file("one.tar"), make_samples(8));
  write_tar(dir_.file("two.tar"), make_samples(8, 100));
  const auto one = open_dataset(dir_.file("one.tar"));
  const auto two = open_dataset(dir_.file("two.tar"));
  auto fetcher = RecordFetcher::make({one, two}, {});
  ASSERT_TRUE(fetcher.ok());
  std::vector<SampleRef> samples;
  for (std::uint32_t i = 0; i < 16; ++i) samples.push_back({.dataset = i % 2, .sample = i / 2});
  const Fetched fetched = fetch(**fetcher, samples);
  ASSERT_TRUE(fetched.status.ok());
  for (std::size_t i = 0; i < samples.size(); ++i) {
    SampleView view;
    ASSERT_TRUE(one->source()
                    .reader()
                    .split(fetched.records[i].bytes, fetched.records[i].offset_bytes, view)
                    .ok());
    EXPECT_EQ(view.key, make_sample(i / 2 + (i % 2 == 0 ? 0 : 100)).key);
  }
}

TEST_F(RecordFetchTest, many_shards_are_read_with_few_files_open) {
  constexpr std::size_t kShards = 30;
  for (std::size_t i = 0; i < kShards; ++i)
    write_tar(dir_.file(std::to_string(100 + i) + ".tar"), make_samples(3, i * 3));
  const auto open_count = [] {
    return std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {});
  };
  for (const EngineKind engine : kEngines) {
    if (!has_engine(engine)) continue;
    const auto dataset = open_dataset(dir_.path(), {.open_shards_max = 2});
    const auto fetcher = make_fetcher(dataset, {.engine = engine, .open_files_max = 3});
    for (const bool is_warm : {true, false}) {
      is_warm ? make_warm(dir_.path()) : make_cold(dir_.path());
      const auto before = open_count();
      const auto samples = any_samples(*dataset, 5);
      EXPECT_EQ(compare(*dataset, samples, fetch(*fetcher, samples)), "");
      EXPECT_LE(open_count(), before + 2 * 5 + 2) << "beside the engine's own";
    }
  }
}

TEST_F(RecordFetchTest, warm_and_cold_shards_share_the_few_files_that_may_be_open) {
  for (std::size_t i = 0; i < 20; ++i)
    write_tar(dir_.file(std::to_string(100 + i) + ".tar"), make_samples(6, i * 6));
  for (const EngineKind engine : kEngines) {
    if (!has_engine(engine)) continue;
    const auto dataset = open_dataset(dir_.path(), {.open_shards_max = 1});
    make_cold(dir_.path());
    for (std::size_t i = 0; i < 20; i += 2)
      static_cast<void>(contents_of(dir_.file(std::to_string(100 + i) + ".tar")));
    const auto fetcher = make_fetcher(dataset, {.engine = engine, .open_files_max = 2});
    const auto samples = any_samples(*dataset, 9);
    EXPECT_EQ(compare(*dataset, samples, fetch(*fetcher, samples)), "");
    EXPECT_GT(fetcher->counters().page_cache_reads, 0U);
  }
}

TEST_F(RecordFetchTest, a_forked_child_is_refused) {
  const auto dataset = open_tar(3);
  const auto fetcher = make_fetcher(dataset);
  FetchPlan plan;
  ASSERT_TRUE(fetcher->plan(std::array{SampleRef{}}, plan).ok());
  GuardedMemory memory(plan.memory_bytes);
  std::vector<FetchedRecord> out(1);
  const ChildEnd end = in_child([&] {
    FetchPlan other;
    const bool refused =
        fetcher->plan(std::array{SampleRef{}}, other).code() == Code::unsupported &&
        fetcher->read(plan, memory.bytes(), out).code() == Code::unsupported;
    return refused ? 0 : 1;
  });
  EXPECT_EQ(end.exit_code, 0);
  EXPECT_TRUE(fetcher->read(plan, memory.bytes(), out).ok());
}

}  // namespace
}  // namespace stoker::testing
