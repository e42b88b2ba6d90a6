#include "dataset/order/order.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "dataset/order_support.h"

namespace stoker::testing {
namespace {

std::vector<OrderOptions> kinds(std::uint64_t sample_count) {
  return {{.shuffle = Shuffle::off, .seed = 3, .sample_count = sample_count},
          {.shuffle = Shuffle::global, .seed = 3, .sample_count = sample_count},
          {.shuffle = Shuffle::block,
           .seed = 3,
           .sample_count = sample_count,
           .block_samples = 4,
           .window_blocks = 3,
           .lanes = 2,
           .deal_samples = 6},
          {.shuffle = Shuffle::resampled, .seed = 3, .sample_count = sample_count}};
}

std::vector<std::uint64_t> samples_of(const SampleOrder& order, std::uint64_t epoch) {
  std::vector<std::uint64_t> samples;
  for (const SampleRef ref : epoch_of(order, epoch)) samples.push_back(ref.sample);
  return samples;
}

TEST(OrderTest, off_is_stored_order_in_every_epoch) {
  const auto order = order_of({.shuffle = Shuffle::off, .sample_count = 5});
  for (std::uint64_t epoch = 0; epoch < 3; ++epoch)
    EXPECT_EQ(samples_of(*order, epoch), (std::vector<std::uint64_t>{0, 1, 2, 3, 4}));
}

TEST(OrderTest, a_shuffled_epoch_is_a_permutation_and_another_one_each_epoch_and_seed) {
  for (OrderOptions options : kinds(1000)) {
    if (options.shuffle != Shuffle::global && options.shuffle != Shuffle::block) continue;
    std::set<std::vector<std::uint64_t>> seen;
    for (options.seed = 0; options.seed < 3; ++options.seed) {
      const auto order = order_of(options);
      for (std::uint64_t epoch = 0; epoch < 3; ++epoch) {
        std::vector<std::uint64_t> samples = samples_of(*order, epoch);
        seen.insert(samples);
        std::ranges::sort(samples);
        for (std::uint64_t i = 0; i < samples.size(); ++i) ASSERT_EQ(samples[i], i);
      }
    }
    EXPECT_EQ(seen.size(), 9U) << shuffle_name(options.shuffle);
  }
}

TEST(OrderTest, resampled_draws_every_sample_equally_often_and_anew_each_epoch) {
  const auto order = order_of({.shuffle = Shuffle::resampled, .seed = 9, .sample_count = 100});
  std::vector<std::uint64_t> seen(100), pairs(100);
  for (std::uint64_t epoch = 0; epoch < 500; ++epoch) {
    const std::vector<std::uint64_t> samples = samples_of(*order, epoch);
    for (std::size_t p = 0; p < samples.size(); ++p) {
      ++seen.at(samples[p]);
      if (p > 0) ++pairs[samples[p - 1] / 10 * 10 + samples[p] / 10];
    }
  }
  EXPECT_LT(unevenness(seen), 4);
  EXPECT_LT(unevenness(pairs), 4);
  EXPECT_NE(samples_of(*order, 0), samples_of(*order, 1));
  EXPECT_EQ(order->next_use(0, 0, {.dataset = 0, .sample = 3}), std::nullopt);
}

TEST(OrderTest, by_the_batch_or_one_by_one_it_is_the_same_and_goes_round) {
  for (const OrderOptions& options : kinds(101)) {
    const auto order = order_of(options);
    EXPECT_EQ(order->epoch_samples(), 101U);
    EXPECT_EQ(order->dataset_count(), 1U);
    for (const std::uint64_t first : {0U, 7U, 95U, 100U, 101U, 250U}) {
      std::vector<SampleRef> filled(230);
      order->fill(2, first, filled);
      for (std::size_t k = 0; k < filled.size(); ++k) {
        EXPECT_EQ(filled[k], order->at(2, first + k)) << shuffle_name(options.shuffle);
        EXPECT_EQ(filled[k], order->at(2, (first + k) % 101)) << shuffle_name(options.shuffle);
      }
    }
  }
}

TEST(OrderTest, it_says_when_a_sample_is_used_next) {
  for (const OrderOptions& options : kinds(37)) {
    if (options.shuffle == Shuffle::resampled) continue;
    const auto order = order_of(options);
    for (std::uint64_t position = 0; position < 37; ++position)
      for (std::uint64_t sample = 0; sample < 37; ++sample) {
        std::uint64_t ahead = 0;  // found by looking
        for (std::uint64_t p = position, epoch = 4; order->at(epoch, p).sample != sample; ++ahead)
          if (++p == 37) {
            p = 0;
            ++epoch;
          }
        ASSERT_EQ(order->next_use(4, position, {.dataset = 0, .sample = sample}), ahead);
      }
    EXPECT_EQ(order->next_use(0, 0, {.dataset = 0, .sample = 37}), std::nullopt);
    EXPECT_EQ(order->next_use(0, 0, {.dataset = 1, .sample = 0}), std::nullopt);
  }
}

TEST(OrderTest, one_sample_is_an_order_too) {
  for (const OrderOptions& options : kinds(1)) {
    const auto order = order_of(options);
    EXPECT_EQ(order->at(0, 0).sample, 0U);
    EXPECT_EQ(order->at(UINT64_MAX, UINT64_MAX).sample, 0U);
  }
}

TEST(OrderTest, the_largest_order_works_at_its_last_position) {
  const std::uint64_t count = std::uint64_t{1} << 62;
  for (OrderOptions options : kinds(count)) {
    for (const std::uint64_t window : {std::uint64_t{3}, UINT64_MAX}) {
      if (options.shuffle == Shuffle::block) options.window_blocks = window;
      const auto order = order_of(options);
      for (const std::uint64_t position : {std::uint64_t{0}, count / 3, count - 1}) {
        const SampleRef ref = order->at(7, position);
        EXPECT_LT(ref.sample, count);
        if (options.shuffle == Shuffle::resampled) continue;
        EXPECT_EQ(order->next_use(7, position, ref), 0U);
      }
    }
  }
}

TEST(OrderTest, what_makes_no_order_is_refused_with_the_reason) {
  const OrderOptions block = kinds(100)[2];
  const auto refusal = [](OrderOptions options) {
    const auto order = make_order(options);
    EXPECT_FALSE(order.ok());
    EXPECT_EQ(order.status().code(), Code::invalid_argument);
    return std::string(order.status().message());
  };
  OrderOptions options = block;
  options.sample_count = 0;
  EXPECT_NE(refusal(options).find("no samples"), std::string::npos);
  options.sample_count = (std::uint64_t{1} << 62) + 1;
  EXPECT_NE(refusal(options).find("2^62"), std::string::npos);
  options = block;
  options.deal_samples = 0;
  EXPECT_NE(refusal(options).find("deal_samples"), std::string::npos);
  options = block;
  options.lanes = 4;
  EXPECT_NE(refusal(options).find("4 lanes do not divide the 6"), std::string::npos);
  options = block;
  options.shuffle = static_cast<Shuffle>(9);
  EXPECT_NE(refusal(options).find("no such shuffle"), std::string::npos);
}

TEST(OrderTest, defaults_are_put_in_and_what_is_not_needed_is_left_out) {
  const auto block =
      resolve_order({.shuffle = Shuffle::block, .sample_count = 10, .deal_samples = 96});
  ASSERT_TRUE(block.ok());
  EXPECT_EQ(block->block_samples, kBlockSamplesDefault);
  EXPECT_EQ(block->window_blocks, kWindowBlocksDefault);
  EXPECT_EQ(block->lanes, 48U);
  EXPECT_EQ(*resolve_order(*block), *block);
  const auto global = resolve_order(
      {.shuffle = Shuffle::global, .seed = 5, .sample_count = 10, .lanes = 7, .deal_samples = 9});
  ASSERT_TRUE(global.ok());
  EXPECT_EQ(*global, (OrderOptions{.shuffle = Shuffle::global, .seed = 5, .sample_count = 10}));
}

TEST(OrderTest, lanes_are_the_greatest_divisor_up_to_64) {
  for (std::uint64_t batch = 1; batch < 2000; ++batch) {
    const std::uint64_t lanes = default_lanes(batch);
    ASSERT_EQ(batch % lanes, 0U);
    ASSERT_LE(lanes, 64U);
    for (std::uint64_t more = lanes + 1; more <= 64; ++more) ASSERT_NE(batch % more, 0U);
  }
  EXPECT_EQ(default_lanes(0), 1U);
  EXPECT_EQ(default_lanes(1024), 64U);
  EXPECT_EQ(default_lanes(67), 1U);
}

TEST(OrderTest, names_of_shuffles_go_both_ways) {
  for (const Shuffle shuffle :
       {Shuffle::off, Shuffle::global, Shuffle::block, Shuffle::resampled}) {
    const auto parsed = parse_shuffle(shuffle_name(shuffle));
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(*parsed, shuffle);
  }
  const auto unknown = parse_shuffle("random");
  ASSERT_FALSE(unknown.ok());
  EXPECT_NE(unknown.status().message().find("off, global, block, resampled"), std::string::npos);
}

}  // namespace
}  // namespace stoker::testing
