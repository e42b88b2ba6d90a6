// Block order: blocks are read whole and ahead, and nobody can tell by looking at the batches.
#include <gtest/gtest.h>

#include "dataset/loader/block_store.h"
#include "dataset/loader_support.h"
#include "io/files/file.h"

namespace stoker::testing {
namespace {

/// 2,000 samples, read past the page cache: what it holds is not worth a block.
class LoaderBlocksTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ShardDataset::Options direct;
    direct.policy = CachePolicy::direct;
    auto opened = ShardDataset::open(data_.paths(), direct);
    ASSERT_TRUE(opened.ok());
    dataset_ = *opened;
  }

  LoaderRunOptions options() const {
    LoaderRunOptions options = data_.options(40);
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
  std::shared_ptr<const ShardDataset> dataset_;
};

TEST_F(LoaderBlocksTest, batches_are_the_same_with_and_without_blocks) {
  LoaderRunOptions without = options();
  without.memory_bytes = *LoaderRun::memory_needed(without);  // none to spare
  const std::vector<std::string> expected = all_batches(without);
  for (const std::size_t threads : {1U, 2U, 4U}) {
    LoaderRunOptions with = options();
    with.threads = threads;
    EXPECT_EQ(all_batches(with), expected);
  }
  EXPECT_EQ(expected.size(), 150U);
}

TEST_F(LoaderBlocksTest, columns_that_keep_no_records_are_the_same_too) {
  LoaderRunOptions without = options();
  without.fields = {{.name = "cls", .kind = FieldKind::int64},
                    {.name = "jpg", .kind = FieldKind::ragged, .dtype = Dtype::uint8}};
  LoaderRunOptions with = without;
  without.memory_bytes = *LoaderRun::memory_needed(without);
  EXPECT_EQ(all_batches(with), all_batches(without));
}

TEST_F(LoaderBlocksTest, most_samples_come_out_of_large_reads) {
  LoaderRunOptions with = options();
  with.threads = 1;
  const auto loader = start_loader(with);
  std::size_t block_bytes_most = 0;
  while (loader->next().kind == Kind::batch)
    block_bytes_most = std::max(block_bytes_most, loader->stats().block_bytes);
  const LoaderStats stats = loader->stats();
  if (stats.fetch.direct_reads == 0) GTEST_SKIP() << "no direct I/O in the temporary directory";
  EXPECT_EQ(stats.samples, 6000U);
  EXPECT_GE(stats.blocks, 120U);  // all; those that go round the end count twice
  // 5,920 samples in blocks of 50, and the first two batches one by one; blocks may be cut in two.
  EXPECT_LT(stats.fetch.direct_reads, 80U + 2 * 120);
  EXPECT_GT(block_bytes_most, 0U);
  EXPECT_LE(block_bytes_most, stats.memory_bytes);
}

/// What all nodes of a world read in one epoch of block order, past the page cache: payload, and
/// what was fetched for it.
struct NodeBytes {
  std::uint64_t records = 0;
  std::uint64_t fetched = 0;
};

NodeBytes read_by_nodes(const LoaderData& data, std::uint64_t world_size) {
  ShardDataset::Options direct;
  direct.policy = CachePolicy::direct;
  NodeBytes sum;
  for (std::uint64_t rank = 0; rank < world_size; ++rank) {
    LoaderRunOptions options = data.options(64);
    options.datasets = {*ShardDataset::open(data.paths(), direct)};  // a node's own
    options.cursor.order = *resolve_order({.shuffle = Shuffle::block,
                                           .seed = 7,
                                           .sample_count = data.dataset()->sample_count(),
                                           .block_samples = 8,
                                           .window_blocks = 4,
                                           .lanes = 8,
                                           .deal_samples = 64});
    options.order = *make_order(options.cursor.order);
    options.cut.rank = rank;
    options.cut.world_size = world_size;
    options.threads = 1;  // two may read a sample for a batch and for a block at the same time
    const auto loader = start_loader(options);
    while (loader->next().kind == Kind::batch) {
    }
    const LoaderStats stats = loader->stats();
    EXPECT_GT(stats.blocks, 0U);
    sum.records += stats.bytes;
    sum.fetched += stats.fetch.direct_bytes;
  }
  return sum;
}

TEST(LoaderNodesTest, nodes_together_fetch_the_dataset_about_once_an_epoch) {
  const LoaderData data(1280, 320, /*image_bytes=*/32 << 10);
  std::uint64_t dataset_bytes = 0;
  for (const IndexedShard& shard : data.dataset()->index().shards())
    dataset_bytes += shard.plain_size_bytes;
  const auto probe =
      File::open(posix_file_ops(), data.paths().front(), {.policy = CachePolicy::direct});
  if (!probe.ok()) GTEST_SKIP() << probe.status().message();
  for (const std::uint64_t world_size : {1U, 2U, 4U, 8U}) {
    const NodeBytes bytes = read_by_nodes(data, world_size);
    EXPECT_GT(bytes.records, dataset_bytes * 95 / 100) << world_size;
    EXPECT_LE(bytes.fetched, dataset_bytes * 105 / 100) << world_size;
  }
}

TEST_F(LoaderBlocksTest, a_damaged_sample_fails_in_its_own_batch) {
  LoaderRunOptions with = options();
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
  LoaderRunOptions whole = options();
  const std::vector<std::string> expected = all_batches(whole);
  for (const std::uint64_t begun : {1U, 7U, 9U, 10U, 49U, 50U, 51U}) {
    LoaderRunOptions rest = options();
    rest.cursor.epoch = begun / 50;
    rest.cursor.position = begun % 50 * 40;
    const std::vector<std::string> tail(expected.begin() + static_cast<std::ptrdiff_t>(begun),
                                        expected.end());
    EXPECT_EQ(all_batches(rest), tail) << begun;
  }
}

TEST_F(LoaderBlocksTest, a_stop_while_blocks_are_read_is_no_failure) {
  LoaderRunOptions with = options();
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

class BlockStoreTest : public ::testing::Test {
 protected:
  /// What is said for each batch of 40 from this one on, over one epoch of 50.
  std::vector<std::vector<internal::BlockStore::Load>> said_from(std::uint64_t batch) const {
    auto pool = BufferPool::make({.budget_bytes = 1 << 20, .touch = false});
    EXPECT_TRUE(pool.ok());
    internal::BlockStore store(*order_, *std::move(pool), 1);
    std::vector<std::vector<internal::BlockStore::Load>> said;
    std::vector<std::uint64_t> positions(40);
    for (; batch < 50; ++batch) {
      for (std::uint64_t k = 0; k < 40; ++k) positions[k] = batch * 40 + k;
      store.advance(0, positions, said.emplace_back());
    }
    return said;
  }

  const std::unique_ptr<SampleOrder> order_ = *make_order({.shuffle = Shuffle::block,
                                                           .seed = 1,
                                                           .sample_count = 2000,
                                                           .block_samples = 50,
                                                           .window_blocks = 4,
                                                           .lanes = 2,
                                                           .deal_samples = 40});
};

TEST_F(BlockStoreTest, each_block_is_said_once_and_while_the_window_before_it_is_handed_out) {
  std::map<std::uint64_t, int> seen;  // by first sample
  std::uint64_t samples = 0;
  const auto said = said_from(0);
  for (std::size_t batch = 0; batch < said.size(); ++batch) {
    EXPECT_LE(said[batch].size(), batch < 2 ? 8U : 4U);  // spread over the batches of a window
    for (const auto& load : said[batch]) {
      ++seen[load.range.first];
      samples += load.range.count;
      // The first window is made up for in an eighth of it: two batches.
      if (load.window == 0) {
        EXPECT_LT(batch, 2U);
      } else {
        EXPECT_EQ(load.window, batch / 10 + 1);
      }
    }
  }
  for (const auto& [first, count] : seen) EXPECT_EQ(count, 1) << first;
  EXPECT_EQ(samples, 2000U);
}

TEST_F(BlockStoreTest, a_window_is_made_up_for_only_if_most_of_it_is_to_come) {
  for (const std::uint64_t begun : {14U, 15U, 16U, 19U}) {
    std::uint64_t made_up = 0;
    for (const auto& loads : said_from(begun))
      for (const auto& load : loads) made_up += load.window == 1 ? load.range.count : 0;
    EXPECT_EQ(made_up, begun <= 15 ? 400U : 0U) << begun;
  }
}

}  // namespace
}  // namespace stoker::testing
