#include "dataset/order/block_samples.h"

#include <gtest/gtest.h>

#include <bit>

namespace stoker::testing {
namespace {

constexpr std::uint64_t kMany = std::uint64_t{1} << 40;

TEST(BlockSizeTest, blocks_of_a_large_dataset_are_of_8_to_16_mib) {
  for (std::uint64_t bytes = 300; bytes < kBlockBytesMax; bytes += 1 + bytes / 3) {
    const std::uint64_t samples =
        choose_block_samples({.sample_count = kMany, .sample_bytes = bytes, .lanes = 64});
    EXPECT_TRUE(std::has_single_bit(samples)) << bytes;
    EXPECT_LE(samples * bytes, kBlockBytesMax) << bytes;
    EXPECT_GT(samples * bytes, kBlockBytesMax / 2) << bytes;
  }
}

TEST(BlockSizeTest, every_lane_has_a_window_of_blocks_where_there_are_enough_samples) {
  for (std::uint64_t count = 1; count < 1'000'000; count += 1 + count / 3) {
    for (const std::uint64_t lanes : {1U, 7U, 64U}) {
      const std::uint64_t samples =
          choose_block_samples({.sample_count = count, .sample_bytes = 2048, .lanes = lanes});
      ASSERT_GE(samples, 1U);
      if (count < kWindowBlocksDefault * lanes) continue;
      const auto order = make_order({.shuffle = Shuffle::block,
                                     .sample_count = count,
                                     .block_samples = samples,
                                     .lanes = lanes,
                                     .deal_samples = lanes});
      ASSERT_TRUE(order.ok()) << order.status().message();
      EXPECT_GE((*order)->lane_shape()->blocks_per_lane, kWindowBlocksDefault)
          << count << " samples, " << lanes << " lanes";
    }
  }
}

TEST(BlockSizeTest, odd_figures_give_a_block_all_the_same) {
  EXPECT_EQ(choose_block_samples({}), 1U);
  EXPECT_EQ(choose_block_samples({.sample_count = kMany, .sample_bytes = 0, .lanes = 0}),
            kBlockSamplesMax);
  EXPECT_EQ(choose_block_samples({.sample_count = kMany, .sample_bytes = kMany, .lanes = 1}), 1U);
}

}  // namespace
}  // namespace stoker::testing
