#include "bench/disk/block_order.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace stoker {
namespace {

std::vector<std::uint64_t> take(BlockOrder& order, std::uint64_t count) {
  std::vector<std::uint64_t> blocks;
  for (std::uint64_t i = 0; i < count; ++i) blocks.push_back(order.next());
  return blocks;
}

TEST(BlockOrderTest, each_pass_visits_every_block_once) {
  for (const std::uint64_t count : {1U, 2U, 3U, 4U, 5U, 16U, 17U, 63U, 64U, 65U, 1000U, 4097U}) {
    SCOPED_TRACE(count);
    BlockOrder order(Pattern::random, count, /*seed=*/7);
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<bool> seen(count);
      for (const std::uint64_t block : take(order, count)) {
        ASSERT_LT(block, count);
        EXPECT_FALSE(seen[block]) << block;
        seen[block] = true;
      }
    }
  }
}

TEST(BlockOrderTest, sequential_starts_again_after_the_last) {
  BlockOrder order(Pattern::sequential, 3, 7);
  EXPECT_EQ(take(order, 7), (std::vector<std::uint64_t>{0, 1, 2, 0, 1, 2, 0}));
}

TEST(BlockOrderTest, seed_decides_the_order_and_passes_differ) {
  BlockOrder a(Pattern::random, 1000, 1);
  BlockOrder b(Pattern::random, 1000, 1);
  BlockOrder c(Pattern::random, 1000, 2);
  const std::vector<std::uint64_t> first = take(a, 1000);
  EXPECT_EQ(first, take(b, 1000));
  EXPECT_NE(first, take(c, 1000));
  EXPECT_NE(first, take(a, 1000));
}

// Read-ahead must find nothing to detect: neighbours in time are hardly ever neighbours on disk.
TEST(BlockOrderTest, random_order_has_hardly_any_sequential_steps) {
  BlockOrder order(Pattern::random, 10'000, 42);
  const std::vector<std::uint64_t> blocks = take(order, 10'000);
  int steps = 0;
  for (std::size_t i = 1; i < blocks.size(); ++i) steps += blocks[i] == blocks[i - 1] + 1 ? 1 : 0;
  EXPECT_LT(steps, 20);
}

}  // namespace
}  // namespace stoker
