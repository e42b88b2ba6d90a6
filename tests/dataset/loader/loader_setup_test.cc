// What a loader is assembled from, and what is filled in where nothing was said.
#include "dataset/loader/loader_setup.h"

#include <gtest/gtest.h>

#include <array>

#include "dataset/loader_setup_support.h"
#include "dataset/order/block_samples.h"
#include "dataset/order/explicit_order.h"

namespace stoker::testing {
namespace {

TEST(LoaderSetupTest, what_is_left_out_has_its_default) {
  const LoaderData data(2000);
  const LoaderSetup setup = make_setup(wish_for(data.dataset(), Shuffle::block, 4));
  std::uint64_t plain_bytes = 0;
  for (const IndexedShard& shard : data.dataset()->index().shards())
    plain_bytes += shard.plain_size_bytes;
  const OrderOptions& order = setup.order_options();
  EXPECT_EQ(order.sample_count, 2000U);
  EXPECT_EQ(order.deal_samples, 4U);
  EXPECT_EQ(order.lanes, 4U);
  EXPECT_EQ(
      order.block_samples,
      choose_block_samples({.sample_count = 2000, .sample_bytes = plain_bytes / 2000, .lanes = 4}));
  EXPECT_EQ(setup.memory_bytes(), std::size_t{512} << 20);
  EXPECT_EQ(setup.cut().options().tail, Tail::drop);
  EXPECT_EQ(setup.fingerprint(), data.dataset()->index().fingerprint());
  EXPECT_EQ(options_from(setup).seed, 7U);

  LoaderRequest request = wish_for(data.dataset(), Shuffle::off, 0);
  request.batch_size = 8;
  request.rank = 1;
  request.world_size = 4;
  request.local_world_size = 2;
  const LoaderSetup stored = make_setup(request);
  EXPECT_EQ(stored.cut().options().tail, Tail::keep);
  EXPECT_EQ(stored.cut().options().global_batch_size, 32U);
  EXPECT_EQ(stored.cut().rank_batch_size(), 8U);
  EXPECT_EQ(stored.memory_bytes(), std::size_t{256} << 20);
  request.tail = Tail::pad;
  EXPECT_EQ(make_setup(request).cursor(0, 0).tail, Tail::pad);
}

TEST(LoaderSetupTest, micro_batches_divide_a_ranks_part_and_are_not_in_the_cursor) {
  const LoaderData data(100);
  LoaderRequest request = wish_for(data.dataset(), Shuffle::global, 48);
  request.world_size = 4;
  const Cursor cursor = make_setup(request).cursor(1, 48);
  request.micro_batch_size = 6;
  LoaderSetup setup = make_setup(request);
  EXPECT_EQ(setup.cursor(1, 48), cursor);
  EXPECT_TRUE(setup.resume(cursor).ok());
  EXPECT_EQ(options_from(setup, 1, 48).cut.micro_batch_size, 6U);
  EXPECT_EQ(setup.cut().micro_batches_per_step(), 2U);
  request.micro_batch_size = 8;
  EXPECT_EQ(refusal(request),
            "global_batch_size=48 is 12 samples for each of 4 ranks, which is not a multiple of "
            "micro_batch_size=8");
  request.global_batch_size = 0;
  request.batch_size = 12;
  EXPECT_EQ(refusal(request), "batch_size=12 is not a multiple of micro_batch_size=8");
}

TEST(LoaderSetupTest, every_order_is_the_one_that_its_options_make) {
  const LoaderData data(100);
  for (const Shuffle shuffle :
       {Shuffle::off, Shuffle::global, Shuffle::block, Shuffle::resampled}) {
    SCOPED_TRACE(shuffle_name(shuffle));
    LoaderRequest request = wish_for(data.dataset(), shuffle, 10);
    request.tail = Tail::drop;
    request.order.block_samples = 5;
    request.order.window_blocks = 2;
    const LoaderSetup setup = make_setup(request);
    EXPECT_EQ(setup.cursor(0, 0).order, data.options(10, shuffle).cursor.order);
    EXPECT_EQ(all_batches(options_from(setup)), all_batches(data.options(10, shuffle)));
    EXPECT_EQ(all_batches(options_from(setup, 0, 70)).size(), 3U);
  }
}

TEST(LoaderSetupTest, a_selection_is_read_in_an_order_of_its_own) {
  const LoaderData data(100);
  const Digest128 whole = data.dataset()->index().fingerprint();
  LoaderRequest request = wish_for(data.dataset(), Shuffle::global, 10);
  const Items list = {9, 3, 3, 77, 50, 12, 13, 14, 99, 0};
  for (const Selection& selection : {Selection(SampleSlice{90, -3, 20}), Selection(list)}) {
    request.parts[0].selection = selection;
    const LoaderSetup setup = make_setup(request);
    EXPECT_EQ(setup.fingerprint(), selection_fingerprint(whole, selection));
    const std::uint64_t count = request.parts[0].selected_count();
    EXPECT_EQ(setup.order_options().sample_count, count);
    const auto own = *make_order({.shuffle = Shuffle::global, .seed = 7, .sample_count = count});
    const auto expected = *make_selected_order(
        std::shared_ptr<const SampleOrder>(*make_order(setup.order_options())), {selection}, {100});
    EXPECT_EQ(samples_of(*setup.order()), samples_of(*expected));
    EXPECT_NE(samples_of(*setup.order()), samples_of(*own));
  }
  request.parts[0].selection = SampleSlice{0, 1, 100};
  EXPECT_EQ(make_setup(request).fingerprint(), whole);
  request.parts[0].selection = SampleSlice{0, 1, 101};
  EXPECT_NE(refusal(request).find("exceed its 100 samples"), std::string::npos) << refusal(request);
  request.parts[0].selection = SampleSlice{5, 1, 20};
  request.on_error = OnError::skip;
  EXPECT_NE(refusal(request).find("whole datasets only"), std::string::npos);
}

TEST(LoaderSetupTest, a_list_is_an_order_and_another_epoch_may_have_another) {
  const LoaderData data(30);
  LoaderRequest request = wish_for(data.dataset(), Shuffle::global, 4);
  request.items = Items{5, 4, 3, 3, 29, 0};
  request.has_items_per_epoch = true;
  LoaderSetup setup = make_setup(request);
  const Digest128 whole = data.dataset()->index().fingerprint();
  EXPECT_EQ(setup.fingerprint(), explicit_order_fingerprint(whole, *request.items));
  EXPECT_EQ(setup.cursor(0, 0).order,
            (OrderOptions{.shuffle = Shuffle::off, .seed = 7, .sample_count = 6}));
  EXPECT_EQ(setup.cut().options().tail, Tail::keep);
  EXPECT_EQ(samples_of(*setup.order()), samples_of(**make_explicit_order(*request.items, 30)));
  EXPECT_EQ(options_from(setup, 3).end_epoch, 4U);

  const Cursor before = setup.cursor(0, 4);
  EXPECT_EQ(setup.set_items({30}).code(), Code::invalid_argument);
  EXPECT_EQ(setup.set_items({}).code(), Code::invalid_argument);
  EXPECT_EQ(setup.cursor(0, 4), before) << "a list that is refused changes nothing";
  EXPECT_TRUE(setup.resume(before).ok());
  ASSERT_TRUE(setup.set_items({1, 2}).ok());
  EXPECT_EQ(setup.order()->epoch_samples(), 2U);
  EXPECT_EQ(setup.resume(before).code(), Code::invalid_argument);
  ASSERT_TRUE(setup.resume(setup.cursor(1, 2)).ok());
  EXPECT_EQ(setup.order()->epoch_samples(), 2U);

  request.parts[0].weight = 1;
  EXPECT_NE(refusal(request).find("a single dataset"), std::string::npos);
  LoaderSetup computed = make_setup(wish_for(data.dataset(), Shuffle::global, 4));
  EXPECT_EQ(computed.set_items({1}).code(), Code::invalid_argument);
}

TEST(LoaderSetupTest, a_mixture_has_its_own_epoch_and_deals_no_lanes) {
  const LoaderData data(100);
  const LoaderData other(40);
  LoaderRequest request = wish_for(data.dataset(), Shuffle::block, 10);
  request.parts = {{.dataset = data.dataset(), .weight = 3},
                   {.dataset = other.dataset(), .weight = 1}};
  const LoaderSetup setup = make_setup(request);
  const std::vector<MixturePart> parts = {{100, 3}, {40, 1}};
  const OrderOptions& order = setup.order_options();
  EXPECT_EQ(order.sample_count, 140U);
  EXPECT_EQ(order.lanes, 1U);
  EXPECT_EQ(order.deal_samples, 1U);
  EXPECT_EQ(order.block_samples, 2U) << "a window of 16 blocks of the smaller dataset";
  EXPECT_EQ(samples_of(*setup.order()),
            samples_of(**make_mixture_order({.order = order, .parts = parts})));
  const std::array prints = {data.dataset()->index().fingerprint(),
                             other.dataset()->index().fingerprint()};
  EXPECT_EQ(setup.fingerprint(), *mixture_fingerprint(prints, parts));
  EXPECT_EQ(all_batches(options_from(setup)).size(), 14U);

  request.order.sample_count = 60;
  EXPECT_EQ(make_setup(request).order()->epoch_samples(), 60U);
  LoaderSetup resumed = make_setup(request);
  EXPECT_TRUE(resumed.resume(make_setup(request).cursor(2, 30)).ok());
  request.parts[1].selection = SampleSlice{0, 1, 30};
  EXPECT_EQ(resumed.resume(make_setup(request).cursor(2, 30)).code(), Code::invalid_argument);
  request.parts[1].weight.reset();
  EXPECT_NE(refusal(request).find("a weight for each"), std::string::npos);
  request.parts.pop_back();
  EXPECT_NE(make_setup(request).fingerprint(), prints[0])
      << "one dataset with a weight is a mixture";
}

TEST(LoaderSetupTest, a_resumed_run_takes_lanes_deal_and_blocks_of_its_cursor) {
  const LoaderData data(2000);
  const LoaderSetup began = make_setup(wish_for(data.dataset(), Shuffle::block, 8));
  const std::vector<std::string> all = all_batches(options_from(began));
  const Cursor at = began.cursor(0, 800);

  LoaderSetup other = make_setup(wish_for(data.dataset(), Shuffle::block, 16));
  EXPECT_NE(other.order_options(), began.order_options());
  EXPECT_NE(other.resume(at).message().find("global_batch_size was 8 and is 16 (may be allowed)"),
            std::string::npos);
  EXPECT_NE(other.order_options(), began.order_options());
  const std::array<std::string_view, 1> allow = {"global_batch_size"};
  ASSERT_TRUE(other.resume(at, allow).ok());
  EXPECT_EQ(other.order_options(), began.order_options());
  EXPECT_EQ(other.cursor(0, 800).global_batch_size, 16U);
  EXPECT_EQ(samples_of(*other.order()), samples_of(*began.order()));

  LoaderRequest by_hand = wish_for(data.dataset(), Shuffle::block, 8);
  by_hand.order.block_samples = 100;
  LoaderSetup hundreds = make_setup(by_hand);
  EXPECT_NE(hundreds.resume(at).message().find("block_samples was 8 and is 100"),
            std::string::npos);
  LoaderSetup same = make_setup(wish_for(data.dataset(), Shuffle::block, 8));
  ASSERT_TRUE(same.resume(hundreds.cursor(1, 8)).ok());
  EXPECT_EQ(same.order_options().block_samples, 100U);
  ASSERT_TRUE(same.resume(at).ok());
  const std::vector<std::string> rest = all_batches(options_from(same, at.epoch, at.position));
  EXPECT_EQ(rest.size(), all.size() - 100);
}

TEST(LoaderSetupTest, lanes_that_do_not_fit_wait_for_a_cursor_that_has_them) {
  const LoaderData data(200);
  LoaderRequest request = wish_for(data.dataset(), Shuffle::block, 12);
  request.order.lanes = 8;
  LoaderSetup setup = make_setup(request);
  const auto refused = setup.options_at(setup.cursor(0, 0));
  EXPECT_NE(refused.status().message().find("8 lanes do not divide the 12"), std::string::npos);
  request.global_batch_size = 16;
  const std::array<std::string_view, 1> allow = {"global_batch_size"};
  ASSERT_TRUE(setup.resume(make_setup(request).cursor(0, 48), allow).ok());
  EXPECT_TRUE(setup.options_at(setup.cursor(0, 48)).ok());
  EXPECT_EQ(setup.order_options().lanes, 8U);
}

TEST(LoaderSetupTest, too_little_memory_is_refused_with_what_is_needed) {
  const LoaderData data(40, 40, 5000);
  LoaderRequest request = wish_for(data.dataset(), Shuffle::global, 8);
  const std::size_t needed = make_setup(request).memory_needed();
  request.memory_bytes = needed;
  EXPECT_EQ(options_from(make_setup(request)).memory_bytes, needed);
  request.memory_bytes = 4096;
  const std::string message = refusal(request);
  EXPECT_TRUE(message.starts_with("memory_bytes is 4,096, and ")) << message;
  EXPECT_NE(message.find(" are needed: three batches of 8 samples"), std::string::npos) << message;
  EXPECT_TRUE(message.ends_with("or leave memory_bytes out")) << message;

  request.local_world_size = 4;
  request.memory_bytes = 4 * needed;
  EXPECT_EQ(make_setup(request).memory_bytes(), needed);
  request.memory_bytes = 4 * needed - 1;
  request.names.memory_bytes = "--memory";
  EXPECT_NE(refusal(request).find(" for each of 4 processes"), std::string::npos);
  EXPECT_NE(refusal(request).find(", 4 times. Raise --memory,"), std::string::npos);
}

TEST(LoaderSetupTest, sizes_are_checked_in_the_words_of_the_caller) {
  const LoaderData data(20);
  LoaderRequest request = wish_for(data.dataset(), Shuffle::global, 0);
  EXPECT_EQ(refusal(request), "give batch_size (per rank) or global_batch_size (all ranks)");
  request.batch_size = request.global_batch_size = 4;
  EXPECT_TRUE(refusal(request).ends_with(", not both"));
  request.batch_size = 0;
  request.world_size = 3;
  EXPECT_EQ(refusal(request), "global_batch_size=4 cannot be divided among 3 ranks");
  request.global_batch_size = 0;
  request.batch_size = UINT64_MAX / 2;
  request.names.batch_size = "--batch-size";
  EXPECT_TRUE(refusal(request).starts_with("--batch-size=9223372036854775807: at most "));
  request.batch_size = 10;
  EXPECT_NE(refusal(request).find("no full batch of 30"), std::string::npos);
  request.parts.clear();
  EXPECT_EQ(refusal(request), "a loader needs a dataset");
}

}  // namespace
}  // namespace stoker::testing
