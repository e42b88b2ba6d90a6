#include "dataset/order/selected_order.h"

#include <gtest/gtest.h>

#include <set>

#include "dataset/order/mixture.h"

namespace stoker {
namespace {

std::shared_ptr<const SampleOrder> inner_order(Shuffle shuffle, std::uint64_t count) {
  OrderOptions options{.shuffle = shuffle, .seed = 3, .sample_count = count};
  if (shuffle == Shuffle::block) {
    options.block_samples = 4;
    options.window_blocks = 2;
    options.deal_samples = 4;
  }
  auto made = make_order(options);
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

std::unique_ptr<SampleOrder> select(std::shared_ptr<const SampleOrder> order, Selection selection,
                                    std::uint64_t sample_count) {
  auto made = make_selected_order(std::move(order), {std::move(selection)}, {sample_count});
  EXPECT_TRUE(made.ok()) << made.status().message();
  return *std::move(made);
}

TEST(SelectedOrderTest, a_slice_gives_its_own_samples_and_no_others) {
  for (const SampleSlice slice :
       {SampleSlice{10, 1, 20}, SampleSlice{0, 3, 20}, SampleSlice{99, -5, 20}}) {
    const auto inner = inner_order(Shuffle::global, 20);
    const auto order = select(inner, slice, 100);
    std::set<std::uint64_t> seen;
    for (std::uint64_t p = 0; p < 20; ++p) {
      const std::uint64_t sample = order->at(2, p).sample;
      const auto item = static_cast<std::int64_t>(inner->at(2, p).sample);
      EXPECT_EQ(static_cast<std::int64_t>(sample),
                static_cast<std::int64_t>(slice.first) + slice.step * item);
      EXPECT_EQ(order->next_use(2, 0, {.sample = sample}), p);
      seen.insert(sample);
    }
    EXPECT_EQ(seen.size(), 20U);
    EXPECT_EQ(order->next_use(2, 0, {.sample = 50}).has_value(), seen.contains(50));
  }
}

TEST(SelectedOrderTest, filling_agrees_with_single_positions) {
  const auto order =
      select(inner_order(Shuffle::block, 30), SampleSlice{.first = 7, .count = 30}, 40);
  std::vector<SampleRef> filled(45);
  order->fill(1, 3, filled);
  for (std::size_t i = 0; i < filled.size(); ++i) EXPECT_EQ(filled[i], order->at(1, 3 + i));
}

TEST(SelectedOrderTest, a_list_may_repeat_and_come_in_any_order) {
  const auto order =
      select(inner_order(Shuffle::off, 4), std::vector<std::uint64_t>{9, 0, 9, 5}, 10);
  EXPECT_EQ(order->at(0, 0).sample, 9U);
  EXPECT_EQ(order->at(0, 1).sample, 0U);
  EXPECT_EQ(order->at(7, 2).sample, 9U);
  EXPECT_EQ(order->at(0, 7).sample, 5U);
  EXPECT_EQ(order->next_use(0, 0, {.sample = 9}), std::nullopt);
}

TEST(SelectedOrderTest, blocks_of_a_slice_lie_where_the_dataset_has_them) {
  const auto inner = inner_order(Shuffle::block, 32);
  const auto order = select(inner, SampleSlice{.first = 100, .count = 32}, 200);
  const auto place = order->block_at(0, 0);
  ASSERT_TRUE(place);
  EXPECT_EQ(place->ranges[0].first, inner->block_at(0, 0)->ranges[0].first + 100);
  const auto ranges = order->window_ranges(0, place->lane, place->window);
  ASSERT_FALSE(ranges.empty());
  EXPECT_EQ(ranges[0].first, inner->window_ranges(0, place->lane, place->window)[0].first + 100);
  EXPECT_FALSE(select(inner, SampleSlice{0, 2, 32}, 200)->block_at(0, 0));
}

TEST(SelectedOrderTest, each_dataset_of_a_mixture_has_its_own_selection) {
  auto mixed = make_mixture_order({.order = {.seed = 1}, .parts = {{4, 1}, {3, 1}}});
  ASSERT_TRUE(mixed.ok()) << mixed.status().message();
  const std::shared_ptr<const SampleOrder> inner = *std::move(mixed);
  const auto order = make_selected_order(
      inner, {SampleSlice{10, 1, 4}, std::vector<std::uint64_t>{2, 4, 6}}, {20, 7});
  ASSERT_TRUE(order.ok()) << order.status().message();
  for (std::uint64_t p = 0; p < 7; ++p) {
    const SampleRef ref = (*order)->at(0, p);
    const SampleRef item = inner->at(0, p);
    EXPECT_EQ(ref.dataset, item.dataset);
    EXPECT_EQ(ref.sample, ref.dataset == 0 ? 10 + item.sample : 2 + 2 * item.sample);
  }
}

TEST(SelectedOrderTest, what_lies_outside_is_named) {
  const auto inner = inner_order(Shuffle::off, 3);
  const auto message = [&](Selection selection) {
    const auto made = make_selected_order(inner, {std::move(selection)}, {10});
    return std::string(made.status().message());
  };
  EXPECT_EQ(message(SampleSlice{7, 1, 3}), "");
  EXPECT_NE(message(SampleSlice{8, 1, 3}), "");
  EXPECT_NE(message(SampleSlice{1, -1, 3}), "");
  EXPECT_NE(message(SampleSlice{10, 1, 1}), "");
  EXPECT_NE(message(SampleSlice{0, INT64_MIN, 2}), "");
  EXPECT_NE(message(SampleSlice{0, 1, 0}), "");
  EXPECT_NE(message(std::vector<std::uint64_t>{}), "");
  EXPECT_NE(message(std::vector<std::uint64_t>{1, 10})
                .find("sample 10 is selected, but there are only 10"),
            std::string::npos);
  EXPECT_FALSE(make_selected_order(inner, {}, {}).ok());
}

// hashlib.blake2b(bytes.fromhex("00112233445566778899aabbccddeeff") +
//                 numpy.array(ids, "<i8").tobytes(), digest_size=16, person=b"stoker.select")
TEST(SelectedOrderTest, the_fingerprint_is_the_one_that_version_0_1_made_in_python) {
  const Digest128 whole = *Digest128::from_hex("00112233445566778899aabbccddeeff");
  const SampleSlice slice{3000, -1, 2990};
  std::vector<std::uint64_t> list;
  for (std::uint64_t i = 3000; i > 10; --i) list.push_back(i);
  EXPECT_EQ(selection_fingerprint(whole, slice).hex(), "07b2dec0eac29be3039896b0af157517");
  EXPECT_EQ(selection_fingerprint(whole, list).hex(), "07b2dec0eac29be3039896b0af157517");
  EXPECT_EQ(selection_fingerprint(whole, std::vector<std::uint64_t>{5, 5, 0, 7}).hex(),
            "ed950f0865b33c36cc039b147f83c402");
}

}  // namespace
}  // namespace stoker
