#include "dataset/order/lane_order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "dataset/order/batch_cut.h"
#include "dataset/order_support.h"

namespace stoker::testing {
namespace {

OrderOptions shape(std::uint64_t n, std::uint64_t s, std::uint64_t k, std::uint64_t c,
                   std::uint64_t g) {
  return {.shuffle = Shuffle::block,
          .seed = 5,
          .sample_count = n,
          .block_samples = s,
          .window_blocks = k,
          .lanes = c,
          .deal_samples = g};
}

std::string text_of(const OrderOptions& options) {
  return "N " + std::to_string(options.sample_count) + ", S " +
         std::to_string(options.block_samples) + ", K " + std::to_string(options.window_blocks) +
         ", C " + std::to_string(options.lanes) + ", G0 " + std::to_string(options.deal_samples);
}

/// Every sample once, and each is found again at its position.
void expect_exact(const OrderOptions& options, std::uint64_t epoch) {
  const auto order = order_of(options);
  const std::vector<SampleRef> samples = epoch_of(*order, epoch);
  std::vector<bool> seen(samples.size());
  for (std::uint64_t position = 0; position < samples.size(); ++position) {
    const std::uint64_t sample = samples[position].sample;
    ASSERT_LT(sample, samples.size()) << text_of(options);
    ASSERT_FALSE(seen[sample]) << text_of(options) << ", sample " << sample;
    seen[sample] = true;
    ASSERT_EQ(order->next_use(epoch, 0, samples[position]), position) << text_of(options);
  }
}

TEST(LaneOrderTest, every_small_shape_is_an_exact_permutation) {
  for (std::uint64_t n = 1; n <= 26; ++n)
    for (const std::uint64_t s : {1U, 2U, 3U, 5U, 30U})
      for (const std::uint64_t k : {1U, 2U, 3U})
        for (const std::uint64_t g : {1U, 2U, 4U, 6U, 30U})
          for (std::uint64_t c = 1; c <= g; ++c)
            if (g % c == 0) expect_exact(shape(n, s, k, c, g), n);
}

TEST(LaneOrderTest, odd_shapes_of_any_size_are_exact_permutations) {
  Numbers numbers(3);
  for (int i = 0; i < 300; ++i) {
    const std::uint64_t lanes = numbers.from_to(1, 17);
    expect_exact(shape(numbers.from_to(1, 3000), numbers.from_to(1, 90), numbers.from_to(1, 9),
                       lanes, lanes * numbers.from_to(1, 40)),
                 numbers.below(100));
  }
}

TEST(LaneOrderTest, blocks_are_the_ranges_that_their_positions_come_from) {
  for (const OrderOptions& options : {shape(1003, 16, 3, 4, 24), shape(1003, 16, 3, 4, 28),
                                      shape(96, 4, 2, 2, 8), shape(7, 8, 2, 2, 4)}) {
    const auto order = order_of(options);
    for (std::uint64_t epoch = 0; epoch < 4; ++epoch) {
      std::map<std::uint64_t, std::set<std::uint64_t>> samples_of_block;
      std::map<std::uint64_t, std::array<SampleRange, 2>> ranges_of_block;
      for (std::uint64_t position = 0; position < options.sample_count; ++position) {
        const std::uint64_t sample = order->at(epoch, position).sample;
        const auto place = order->block_at(epoch, position);
        ASSERT_TRUE(place.has_value());
        samples_of_block[place->block].insert(sample);
        ranges_of_block[place->block] = place->ranges;
        ASSERT_EQ(place->lane == BlockPlace::kNoLane,
                  position >= order->lane_shape()->lane_positions);
      }
      EXPECT_EQ(samples_of_block.size(),
                (options.sample_count + options.block_samples - 1) / options.block_samples);
      for (const auto& [block, ranges] : ranges_of_block) {
        std::set<std::uint64_t> inside;
        for (const SampleRange& range : ranges)
          for (std::uint64_t i = 0; i < range.count; ++i) inside.insert(range.first + i);
        EXPECT_EQ(inside, samples_of_block[block]) << text_of(options) << ", block " << block;
      }
    }
  }
}

TEST(LaneOrderTest, a_window_of_a_lane_reads_its_blocks_and_none_else) {
  const OrderOptions options = shape(1003, 16, 3, 4, 24);
  const auto order = order_of(options);
  const LaneShape lanes = *order->lane_shape();
  EXPECT_EQ(lanes.blocks_per_lane, 15U);
  EXPECT_EQ(lanes.lane_positions, 960U);
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::set<std::uint64_t>> used;
  for (std::uint64_t position = 0; position < lanes.lane_positions; ++position) {
    const BlockPlace place = *order->block_at(2, position);
    EXPECT_EQ(place.lane, position % 24 / 6);
    used[{place.lane, place.window}].insert(order->at(2, position).sample);
  }
  EXPECT_EQ(used.size(), 4U * 5U);
  for (const auto& [lane_and_window, samples] : used) {
    std::set<std::uint64_t> inside;
    const auto ranges = order->window_ranges(2, lane_and_window.first, lane_and_window.second);
    EXPECT_GE(ranges.size(), 3U);
    for (const SampleRange& range : ranges)
      for (std::uint64_t i = 0; i < range.count; ++i) inside.insert(range.first + i);
    EXPECT_EQ(inside, samples);
  }
  EXPECT_TRUE(order->window_ranges(2, 4, 0).empty());
  EXPECT_TRUE(order->window_ranges(2, 0, 5).empty());
  EXPECT_TRUE(order_of(shape(7, 8, 2, 2, 4))->window_ranges(0, 0, 0).empty());
}

/// Which ranks read which block, over one epoch's positions in lanes.
std::map<std::uint64_t, std::set<std::uint64_t>> readers(const SampleOrder& order,
                                                         std::uint64_t world) {
  const LaneShape lanes = *order.lane_shape();
  std::map<std::uint64_t, std::set<std::uint64_t>> ranks_of_block;
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const auto cut = BatchCut::make({.global_batch_size = lanes.deal_samples,
                                     .rank = rank,
                                     .world_size = world,
                                     .epoch_samples = order.epoch_samples()});
    EXPECT_TRUE(cut.ok());
    for (std::uint64_t begin = 0; begin < lanes.lane_positions; begin = cut->next_position(begin)) {
      const BatchCut::Part part = cut->part(begin);
      for (std::uint64_t slot = 0; slot < part.count; ++slot)
        ranks_of_block[order.block_at(1, cut->position_of(part, slot))->block].insert(rank);
    }
  }
  return ranks_of_block;
}

TEST(LaneOrderTest, ranks_read_disjoint_blocks_where_their_number_divides_the_lanes) {
  const auto order = order_of(shape(8011, 10, 4, 16, 64));
  const std::uint64_t dealt = order->lane_shape()->blocks_per_lane * 16;
  for (const std::uint64_t world : {1U, 2U, 4U, 8U, 16U}) {
    const auto ranks_of_block = readers(*order, world);
    EXPECT_EQ(ranks_of_block.size(), dealt);
    for (const auto& [block, ranks] : ranks_of_block)
      EXPECT_EQ(ranks.size(), 1U) << "block " << block << " of " << world << " ranks";
  }
  std::uint64_t reads = 0;  // with 64 ranks on 16 lanes, four share each
  for (const auto& [block, ranks] : readers(*order, 64)) {
    EXPECT_LE(ranks.size(), 4U);
    reads += ranks.size();
  }
  EXPECT_GT(reads, 3 * dealt);
}

TEST(LaneOrderTest, what_belongs_to_no_lane_is_little) {
  Numbers numbers(4);
  for (int i = 0; i < 2000; ++i) {
    const std::uint64_t lanes = numbers.from_to(1, 64);
    const OrderOptions options = shape(numbers.from_to(1, 10'000'000), numbers.from_to(1, 5000), 16,
                                       lanes, lanes * numbers.from_to(1, 50));
    const LaneShape figures = *order_of(options)->lane_shape();
    EXPECT_LT(options.sample_count - figures.lane_positions,
              options.deal_samples + lanes * options.block_samples)
        << text_of(options);
  }
}

TEST(LaneOrderTest, no_sample_is_dropped_more_often_than_others) {
  const auto order = order_of(shape(103, 8, 2, 2, 8));
  std::vector<std::uint64_t> dropped(103);
  for (std::uint64_t epoch = 0; epoch < 5000; ++epoch)
    for (std::uint64_t position = 96; position < 103; ++position)
      ++dropped[order->at(epoch, position).sample];
  // Neighbours are dropped together, so the counts vary more than independent ones would.
  const auto [least, most] = std::ranges::minmax(dropped);
  EXPECT_GT(least, 230U);
  EXPECT_LT(most, 450U);
}

TEST(LaneOrderTest, too_few_blocks_for_the_lanes_give_a_global_order) {
  const auto order = order_of(shape(40, 4, 2, 16, 64));
  EXPECT_EQ(order->lane_shape()->lane_positions, 0U);
  std::vector<std::uint64_t> seen(1600);
  for (std::uint64_t epoch = 0; epoch < 2000; ++epoch)
    for (std::uint64_t position = 0; position < 40; ++position)
      ++seen[position * 40 + order->at(epoch, position).sample];
  EXPECT_LT(unevenness(seen), 4);
}

}  // namespace
}  // namespace stoker::testing
