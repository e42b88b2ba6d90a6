#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>

#include "dataset/fetch_support.h"

namespace stoker::testing {
namespace {

constexpr std::array kEngines = {EngineKind::uring, EngineKind::threads, EngineKind::sync};
constexpr std::size_t kSamples = 40;

/// Each engine, reading cold data past the page cache and warm data from it.
struct FaultCase {
  EngineKind engine;
  bool is_direct;
};
std::string name_of(const ::testing::TestParamInfo<FaultCase>& test) {
  return std::string(engine_kind_name(test.param.engine)) +
         (test.param.is_direct ? "_direct" : "_warm");
}

class RecordFetchFaultsTest : public ::testing::TestWithParam<FaultCase> {
 protected:
  using Tamper = std::function<std::int64_t(const Request&, std::int64_t)>;

  void SetUp() override {
    if (GetParam().engine == EngineKind::uring && probe_engine().kind != EngineKind::uring)
      GTEST_SKIP() << "no io_uring here";
    if (GetParam().is_direct && !has_direct_reads(dir_.path()))
      GTEST_SKIP() << "no direct reads on this filesystem";
    std::vector<OwnedSample> samples;
    for (std::size_t i = 0; i < kSamples; ++i) samples.push_back(make_sample(i, 5000));
    write_tar(path_, samples);
    open();
  }

  void open() {
    dataset_ = open_dataset(
        path_, {.index = {.checksums = true},
                .policy = GetParam().is_direct ? CachePolicy::direct : CachePolicy::automatic});
    ASSERT_NE(dataset_, nullptr);
    make_warm(dir_.path());
  }

  std::unique_ptr<RecordFetcher> fetcher(Tamper tamper = {}) {
    return make_fetcher(dataset_, {.engine = GetParam().engine,
                                   .engine_options = {.depth = 8, .tamper = std::move(tamper)}});
  }

  /// A result for every read that covers the middle of this sample.
  Tamper at_sample(std::uint64_t sample, std::int64_t result) {
    const ByteRange bad = dataset_->index().locate(sample)->record;
    const std::uint64_t middle = bad.offset_bytes + bad.size_bytes / 2;
    return [middle, result](const Request& request, std::int64_t raw) {
      const bool covers =
          request.offset_bytes <= middle && middle < request.offset_bytes + request.size_bytes();
      return covers ? result : raw;
    };
  }

  /// That sample `bad` fails with `code`, naming itself, and all others are read.
  void expect_one_bad(const Fetched& fetched, std::span<const SampleRef> samples, std::uint64_t bad,
                      Code code) {
    ASSERT_TRUE(fetched.status.ok()) << fetched.status.message();
    for (std::size_t i = 0; i < samples.size(); ++i) {
      const FetchedRecord& record = fetched.records[i];
      if (samples[i].sample != bad) {
        EXPECT_TRUE(record.status.ok()) << i << ": " << record.status.message();
        EXPECT_FALSE(record.bytes.empty());
        continue;
      }
      EXPECT_EQ(record.status.code(), code) << record.status.message();
      EXPECT_TRUE(record.bytes.empty());
      const std::string message(record.status.message());
      EXPECT_EQ(message.find(dataset_->describe(bad)), 0U) << message;
    }
  }

  const DatasetDir dir_;
  const std::string path_ = dir_.file("a.tar");
  std::shared_ptr<const ShardDataset> dataset_;
};

TEST_P(RecordFetchFaultsTest, a_block_that_cannot_be_read_fails_its_record_alone) {
  for (const std::uint64_t bad : {std::uint64_t{0}, std::uint64_t{17}, kSamples - 1}) {
    const auto fetching = fetcher(at_sample(bad, -EIO));
    const auto samples = all_samples(*dataset_);
    const Fetched fetched = fetch(*fetching, samples);  // neighbours: one merged read at first
    expect_one_bad(fetched, samples, bad, Code::io_error);
    EXPECT_EQ(fetching->counters().failure_count, 1U);
    std::vector<SampleRef> alone = {{.sample = bad}, {.sample = (bad + 9) % kSamples}};
    expect_one_bad(fetch(*fetching, alone), alone, bad, Code::io_error);
  }
}

TEST_P(RecordFetchFaultsTest, a_read_that_somebody_cancelled_fails_its_record_alone) {
  const auto samples = all_samples(*dataset_);
  expect_one_bad(fetch(*fetcher(at_sample(3, -ECANCELED)), samples), samples, 3, Code::cancelled);
}

TEST_P(RecordFetchFaultsTest, a_file_that_ends_early_fails_the_record_alone) {
  const auto samples = all_samples(*dataset_);
  expect_one_bad(fetch(*fetcher(at_sample(11, 0)), samples), samples, 11, Code::io_error);
}

TEST_P(RecordFetchFaultsTest, short_counts_and_interruptions_are_continued) {
  std::atomic<int> calls{0};
  const auto fetching = fetcher([&calls](const Request&, std::int64_t raw) -> std::int64_t {
    switch (calls++ % 3) {
      case 0: return -EINTR;
      case 1: return raw > 4096 ? 4096 : raw;
      default: return raw;
    }
  });
  const auto samples = all_samples(*dataset_);
  EXPECT_EQ(compare(*dataset_, samples, fetch(*fetching, samples)), "");
  EXPECT_GE(calls.load(), 3);
}

TEST_P(RecordFetchFaultsTest, a_flipped_bit_is_found_and_named_as_the_dataset_names_it) {
  const ByteRange bad = dataset_->index().locate(23)->record;
  flip_bit(path_, bad.offset_bytes + 700);
  open();
  const auto samples = all_samples(*dataset_);
  const Fetched fetched = fetch(*fetcher(), samples);
  expect_one_bad(fetched, samples, 23, Code::corrupt);
  SampleRecord record;
  EXPECT_EQ(fetched.records[23].status.message(), dataset_->read(23, record).message());
  const auto unchecked = make_fetcher(dataset_, {.checksums = false});
  EXPECT_TRUE(fetch(*unchecked, samples).records[23].status.ok()) << "nobody looked";
}

TEST_P(RecordFetchFaultsTest, a_shard_cut_short_after_it_was_opened_loses_its_tail_only) {
  const auto fetching = fetcher();
  const auto samples = all_samples(*dataset_);
  ASSERT_TRUE(fetch(*fetching, samples).status.ok());
  const ByteRange cut = dataset_->index().locate(30)->record;
  ASSERT_EQ(::truncate(path_.c_str(), static_cast<off_t>(cut.offset_bytes + 1000)), 0);
  const Fetched fetched = fetch(*fetching, samples);
  ASSERT_TRUE(fetched.status.ok());
  for (std::uint64_t i = 0; i < kSamples; ++i) {
    EXPECT_EQ(fetched.records[i].status.ok(), i < 30) << i;
    if (i < 30) continue;
    EXPECT_EQ(fetched.records[i].status.code(), Code::io_error);
    EXPECT_NE(fetched.records[i].status.message().find("shortened"), std::string_view::npos);
  }
}

TEST_P(RecordFetchFaultsTest, a_shard_that_changed_before_it_was_opened_fails_its_records) {
  write_tar(dir_.file("b.tar"), make_samples(4));
  const auto both = open_dataset(dir_.path());
  touch(dir_.file("b.tar"));
  const auto fetching = make_fetcher(both, {.engine = GetParam().engine});
  const auto samples = all_samples(*both);
  const Fetched fetched = fetch(*fetching, samples);
  ASSERT_TRUE(fetched.status.ok());
  for (std::size_t i = 0; i < samples.size(); ++i)
    EXPECT_EQ(fetched.records[i].status.code(), i < kSamples ? Code::ok : Code::unavailable) << i;
  SampleRecord record;
  EXPECT_EQ(fetched.records[kSamples].status.message(), both->read(kSamples, record).message());
}

TEST_P(RecordFetchFaultsTest, a_stop_ends_it_and_the_memory_is_left_alone) {
  std::stop_source stop;
  std::atomic<int> calls{0};
  const auto fetching =
      make_fetcher(dataset_, {.engine = GetParam().engine,
                              .engine_options = {.depth = 2,
                                                 .tamper =
                                                     [&](const Request&, std::int64_t raw) {
                                                       if (++calls == 3) stop.request_stop();
                                                       return raw;
                                                     }},
                              .gap_bytes = 0});
  std::vector<SampleRef> samples;  // no neighbours, so that each is a read
  for (unsigned round = 0; round < 4; ++round)
    for (std::uint64_t i = round % 2; i < kSamples; i += 2) samples.push_back({.sample = i});
  const std::span<const SampleRef> some = std::span(samples).first(kSamples / 2);
  const Fetched stopped = fetch(*fetching, some, stop.get_token());
  EXPECT_EQ(stopped.status.code(), Code::cancelled) << calls.load();
  const std::vector<std::byte> after(stopped.memory->bytes().begin(),
                                     stopped.memory->bytes().end());
  EXPECT_EQ(fetch(*fetching, some, stop.get_token()).status.code(), Code::cancelled);
  EXPECT_TRUE(std::ranges::equal(after, stopped.memory->bytes()));
  EXPECT_EQ(compare(*dataset_, samples, fetch(*fetching, samples)), "") << "and it continues";
}

INSTANTIATE_TEST_SUITE_P(engines, RecordFetchFaultsTest,
                         ::testing::Values(FaultCase{kEngines[0], true},
                                           FaultCase{kEngines[1], true},
                                           FaultCase{kEngines[2], true},
                                           FaultCase{kEngines[2], false}),
                         name_of);

}  // namespace
}  // namespace stoker::testing
