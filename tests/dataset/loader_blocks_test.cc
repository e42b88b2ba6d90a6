// Block order: blocks are read whole and ahead, and nobody can tell by looking at the batches.
#include <gtest/gtest.h>

#include "dataset/block_store.h"
#include "dataset/loader_support.h"

namespace stoker::testing {
namespace {

/// 2,000 samples, read past the page cache: what it holds is not worth a block.
class LoaderBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    Dataset::Options direct;
    direct.policy = CachePolicy::direct;
    auto opened = Dataset::open(data_.paths(), direct);
    ASSERT_TRUE(opened.ok());
    dataset_ = *opened;
  }

  LoaderOptions options() const {
    LoaderOptions options = data_.options(40);
    options.datasets = {dataset_};
    const auto resolved = resolve_order({.shuffle = Shuffle::block,
                                         .seed = 7,
                                         .sample_count = 2000,
                                         .block_samples = 50,
                                         .window_blocks = 4,
                                         .lanes = 2,
                                         .deal_samples = 40});
    EXPECT_TRUE(resolved.ok());
    options.cursor.order = *resolved;
    options.order = *make_order(*resolved);
    options.end_epoch = 3;
    return options;
  }

  const LoaderData data_{2000, 300};
  std::shared_ptr<const Dataset> dataset_;
};

TEST_F(LoaderBlocksTest, batches_are_the_same_with_and_without_blocks) {
  LoaderOptions without = options();
  without.memory_bytes = *Loader::memory_needed(without);  // none to spare
  const std::vector<std::string> expected = all_batches(without);
  for (const std::size_t threads : {1U, 2U, 4U}) {
    LoaderOptions with = options();
    with.threads = threads;
    EXPECT_EQ(all_batches(with), expected);
  }
  EXPECT_EQ(expected.size(), 150U);
}

TEST_F(LoaderBlocksTest, columns_that_keep_no_records_are_the_same_too) {
  LoaderOptions without = options();
  without.fields = {{.name = "cls", .kind = FieldKind::int64},
                    {.name = "jpg", .kind = FieldKind::ragged, .dtype = Dtype::uint8}};
  LoaderOptions with = without;
  without.memory_bytes = *Loader::memory_needed(without);
  EXPECT_EQ(all_batches(with), all_batches(without));
}

TEST_F(LoaderBlocksTest, most_samples_come_out_of_large_reads) {
  LoaderOptions with = options();
  with.threads = 1;
  const auto loader = start_loader(with);
  std::size_t block_bytes_most = 0;
  while (loader->next().kind == Kind::batch)
    block_bytes_most = std::max(block_bytes_most, loader->stats().block_bytes);
  const LoaderStats stats = loader->stats();
  if (stats.fetch.direct_reads == 0) GTEST_SKIP() << "no direct I/O in the temporary directory";
  EXPECT_EQ(stats.samples, 6000U);
  EXPECT_GT(stats.blocks, 60U);  // of 120, the first window's 8 are read one by one
  // 5,600 samples in blocks of 50, and 400 one by one.
  EXPECT_LT(stats.fetch.direct_reads, 1500U);
  EXPECT_GT(block_bytes_most, 0U);
  EXPECT_LE(block_bytes_most, stats.memory_bytes);
}

TEST_F(LoaderBlocksTest, a_damaged_sample_fails_in_its_own_batch) {
  LoaderOptions with = options();
  with.end_epoch = 1;
  // One that comes late, so that its block is read ahead.
  const SampleRef ref = with.order->at(0, 1234);
  const SampleLocation at = *dataset_->index().locate(ref.sample);
  flip_bit(data_.paths()[at.shard], at.record.offset_bytes + 3 * 512 + 10);
  const auto loader = start_loader(with);
  std::uint64_t batches = 0;
  for (;; ++batches) {
    const NextBatch next = loader->next();
    if (next.kind == Kind::batch) continue;
    EXPECT_EQ(next.kind, Kind::failed);
    EXPECT_EQ(next.status.code(), Code::corrupt);
    EXPECT_NE(next.status.message().find("sample " + std::to_string(ref.sample) + " at byte"),
              std::string_view::npos);
    break;
  }
  EXPECT_EQ(batches, 1234U / 40);
}

TEST_F(LoaderBlocksTest, a_run_may_begin_in_the_middle_of_a_window) {
  LoaderOptions whole = options();
  const std::vector<std::string> expected = all_batches(whole);
  for (const std::uint64_t begun : {1U, 7U, 9U, 10U, 49U, 50U, 51U}) {
    LoaderOptions rest = options();
    rest.cursor.epoch = begun / 50;
    rest.cursor.position = begun % 50 * 40;
    const std::vector<std::string> tail(expected.begin() + static_cast<std::ptrdiff_t>(begun),
                                        expected.end());
    EXPECT_EQ(all_batches(rest), tail) << begun;
  }
}

TEST_F(LoaderBlocksTest, a_stop_while_blocks_are_read_is_no_failure) {
  LoaderOptions with = options();
  with.end_epoch = std::nullopt;
  for (int batches = 0; batches < 100; ++batches) {
    const auto loader = start_loader(with);
    for (int i = 0; i < batches % 20; ++i) ASSERT_EQ(loader->next().kind, Kind::batch);
    loader->stop();
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ(loader->next().kind, Kind::stopped);
      static_cast<void>(loader->stats());
    }
  }
}

TEST(BlockStoreTest, each_block_of_the_next_window_is_said_once) {
  const auto order = make_order({.shuffle = Shuffle::block,
                                 .seed = 1,
                                 .sample_count = 2000,
                                 .block_samples = 50,
                                 .window_blocks = 4,
                                 .lanes = 2,
                                 .deal_samples = 40});
  ASSERT_TRUE(order.ok());
  auto pool = BufferPool::make({.budget_bytes = 1 << 20, .touch = false});
  ASSERT_TRUE(pool.ok());
  internal::BlockStore store(**order, *std::move(pool), 1);
  std::map<std::uint64_t, int> seen;  // by first sample
  std::uint64_t samples = 0;
  std::vector<internal::BlockStore::Load> loads;
  std::vector<std::uint64_t> positions(40);
  for (std::uint64_t batch = 0; batch < 50; ++batch) {
    for (std::uint64_t k = 0; k < 40; ++k) positions[k] = batch * 40 + k;
    store.advance(0, positions, loads);
    EXPECT_LE(loads.size(), 4U);  // spread over the batches of a window
    for (const auto& load : loads) {
      ++seen[load.range.first];
      samples += load.range.count;
      EXPECT_EQ(load.window, batch / 10 + 1);
    }
  }
  for (const auto& [first, count] : seen) EXPECT_EQ(count, 1) << first;
  EXPECT_EQ(samples, 1600U);  // all windows but the first
}

}  // namespace
}  // namespace stoker::testing
