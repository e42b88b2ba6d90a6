// Many shards and few descriptors: what is kept open has its bounds, over all datasets and threads.
#include "dataset/shards/open_files.h"

#include <cstdio>
#include <functional>
#include <iostream>

#include "dataset/loader_support.h"
#include "io/files/file.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

constexpr std::size_t kSamples = 600;
constexpr std::size_t kPerShard = 2;

/// Runs `work` in a child that may have `limit` descriptors: the limit is the process's. Prints
/// what it answers; whether that was nothing.
bool is_well_within(rlim_t limit, const std::function<std::string()>& work) {
  static_cast<void>(std::fflush(nullptr));  // or the child prints it again
  const ChildEnd end = in_child([&] {
    rlimit limits{};
    ::getrlimit(RLIMIT_NOFILE, &limits);
    limits.rlim_cur = limit;
    const bool is_set = ::setrlimit(RLIMIT_NOFILE, &limits) == 0;
    const std::string answer = is_set ? work() : "no limit was set";
    std::cerr << answer << std::flush;
    static_cast<void>(std::fflush(nullptr));
    return answer.empty() && !::testing::Test::HasFailure() ? 0 : 1;
  });
  return end.exit_code == 0;
}

std::shared_ptr<const ShardDataset> opened_as(const LoaderData& data, CachePolicy policy) {
  ShardDataset::Options options;
  options.policy = policy;
  auto dataset = ShardDataset::open(data.paths(), options);
  return dataset.ok() ? *dataset : nullptr;
}

/// Two datasets of 300 shards, each with a loader of eight threads, read in turns for two epochs.
std::string read_two_datasets(CachePolicy policy) {
  std::vector<std::unique_ptr<LoaderRun>> loaders;
  std::vector<std::unique_ptr<LoaderData>> sets;
  for (int i = 0; i < 2; ++i) {
    sets.push_back(std::make_unique<LoaderData>(kSamples, kPerShard));
    LoaderRunOptions options = sets.back()->options(60);
    options.datasets = {opened_as(*sets.back(), policy)};
    if (options.datasets.front() == nullptr) return "a dataset cannot be opened";
    options.end_epoch = 2;
    options.threads = 8;
    options.depth = 16;
    auto loader = LoaderRun::start(std::move(options));
    if (!loader.ok()) return std::string(loader.status().message());
    loaders.push_back(*std::move(loader));
  }
  std::size_t samples = 0;
  for (std::size_t turn = 0; turn < 2 * kSamples / 60; ++turn)
    for (const auto& loader : loaders) {
      const NextBatch next = loader->next();
      if (next.kind != Kind::batch) return std::string(next.status.message());
      samples += next.batch.size();
    }
  return samples == 4 * kSamples ? "" : "there were " + std::to_string(samples) + " samples";
}

TEST(OpenFilesTest, shares_leave_something_to_whoever_comes_later_and_come_back) {
  EXPECT_TRUE(is_well_within(128, [] {  // 32 files
    const OpenFilesShare some = OpenFilesShare::take(5, 2);
    EXPECT_EQ(some.count(), 5U);
    {
      const OpenFilesShare half = OpenFilesShare::take(300, 2);
      EXPECT_EQ(half.count(), (32U - 5) / 2);
      EXPECT_EQ(OpenFilesShare::take(300, 2).count(), (32U - 5 - 13) / 2);
      const OpenFilesShare told = OpenFilesShare::insist(40);
      EXPECT_EQ(told.count(), 40U);
      EXPECT_EQ(OpenFilesShare::take(300, 2).count(), 0U);
      EXPECT_EQ(OpenFilesShare::take(300, 8, 2).count(), 2U);
    }
    OpenFilesShare again = OpenFilesShare::take(300, 1);
    EXPECT_EQ(again.count(), 32U - 5);
    const OpenFilesShare moved = std::move(again);
    EXPECT_EQ(OpenFilesShare::take(300, 1).count(), 0U);
    return std::string();
  }));
}

TEST(OpenFilesTest, two_datasets_of_many_shards_do_with_few_descriptors) {
  for (const rlim_t limit : {96U, 128U, 256U})
    EXPECT_TRUE(is_well_within(limit, [] { return read_two_datasets(CachePolicy::automatic); }))
        << limit;
}

TEST(OpenFilesTest, so_do_reads_past_the_page_cache_which_need_two_each) {
  const LoaderData data(4);
  auto probe = File::open(posix_file_ops(), data.paths().front(), {.policy = CachePolicy::direct});
  if (!probe.ok()) GTEST_SKIP() << probe.status().message();
  for (const rlim_t limit : {128U, 256U})
    EXPECT_TRUE(is_well_within(limit, [] { return read_two_datasets(CachePolicy::direct); }))
        << limit;
}

TEST(OpenFilesTest, a_dataset_gives_its_files_back) {
  EXPECT_TRUE(is_well_within(64, [] {  // 16 files
    const LoaderData data(40, 2);
    EXPECT_EQ(data.dataset()->open_shards_max(), 8U);
    for (int i = 0; i < 3; ++i) {
      const auto again = opened_as(data, CachePolicy::automatic);
      EXPECT_EQ(again->open_shards_max(), 4U);
    }
    return std::string();
  }));
}

}  // namespace
}  // namespace stoker::testing
