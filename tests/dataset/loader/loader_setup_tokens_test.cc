// The same for rows of tokens: windows and packs.
#include <gtest/gtest.h>

#include <array>
#include <utility>

#include "dataset/fetch_support.h"
#include "dataset/loader_setup_support.h"
#include "dataset/order/block_samples.h"
#include "dataset/order/explicit_order.h"
#include "dataset/tokens/token_fingerprint.h"

namespace stoker::testing {
namespace {

/// Documents in two corpora, cut into windows or packs.
class LoaderSetupTokensTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kLength = 32;

  void SetUp() override {
    for (const char* name : {"a", "b"}) {
      const auto shift = static_cast<std::size_t>(name[0]);
      std::vector<std::size_t> lengths;
      for (std::size_t i = 0; i < 200; ++i) lengths.push_back(1 + (i * 7 + shift) % 40);
      const std::string path = dir_.file(name);
      write_megatron(path, lengths);
      datasets_.push_back(open_dataset(path + ".idx"));
    }
  }

  LoaderPart windows(std::size_t corpus) const {
    auto made = TokenWindows::make(*datasets_[corpus], {.window = kLength, .extra = 1});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return {.dataset = datasets_[corpus],
            .windows = std::make_shared<const TokenWindows>(*std::move(made))};
  }

  LoaderPart packs(std::size_t corpus, std::uint64_t pad) const {
    auto made = TokenBins::open(datasets_[corpus], {.length = kLength});
    EXPECT_TRUE(made.ok()) << made.status().message();
    return {.dataset = datasets_[corpus],
            .packs = std::make_shared<const TokenBins>(*std::move(made)),
            .pad = pad};
  }

  static LoaderRequest request(std::vector<LoaderPart> parts) {
    return {.parts = std::move(parts),
            .order = {.shuffle = Shuffle::block, .seed = 7},
            .global_batch_size = 4,
            .threads = 2};
  }

  DatasetDir dir_;
  std::vector<std::shared_ptr<const ShardDataset>> datasets_;
};

TEST_F(LoaderSetupTokensTest, rows_are_counted_sized_and_identified_as_they_are_cut) {
  const LoaderSetup setup = make_setup(request({windows(0)}));
  const LoaderPart part = windows(0);
  EXPECT_EQ(setup.order_options().sample_count, part.windows->count());
  EXPECT_EQ(
      setup.order_options().block_samples,
      choose_block_samples(
          {.sample_count = part.windows->count(), .sample_bytes = (kLength + 1) * 2, .lanes = 4}));
  constexpr std::array<std::uint64_t, 3> kCut = {kLength, kLength, 1};
  EXPECT_EQ(setup.fingerprint(), token_fingerprint(datasets_[0]->index().fingerprint(), kCut));
  EXPECT_EQ(all_batches(options_from(setup)).size(), part.windows->count() / 4);
}

TEST_F(LoaderSetupTokensTest, a_mixture_of_tokens_with_a_selection_is_read) {
  LoaderPart some = windows(0);
  some.weight = 1;
  some.selection = SampleSlice{4, 2, 20};
  LoaderPart all = windows(1);
  all.weight = 2;
  const LoaderSetup setup = make_setup(request({some, all}));
  EXPECT_EQ(setup.order()->epoch_samples(), 20 + all.windows->count());
  for (const SampleRef& ref : samples_of(*setup.order())) {
    if (ref.dataset == 0) {
      EXPECT_TRUE(ref.sample >= 4 && ref.sample < 44 && ref.sample % 2 == 0) << ref.sample;
    }
  }
  EXPECT_EQ(all_batches(options_from(setup)).size(), setup.order()->epoch_samples() / 4);
  LoaderPart packed = packs(1, 0);
  packed.weight = 2;
  EXPECT_NE(refusal(request({some, packed})), "");
}

TEST_F(LoaderSetupTokensTest, cursors_of_version_0_1_do_not_say_what_fills_packs_up) {
  constexpr std::array<std::uint64_t, 1> kCut = {kLength};
  const Digest128 old = token_fingerprint(datasets_[0]->index().fingerprint(), kCut);
  const Selection slice = SampleSlice{3, 1, 40};
  LoaderPart selected = packs(0, 3);
  selected.selection = slice;
  LoaderPart weighted = packs(0, 3);
  weighted.weight = 1;
  LoaderRequest listed = request({packs(0, 3)});
  listed.items = Items{5, 4, 3, 2, 1};
  const std::vector<MixturePart> mixture = {{weighted.whole_count(), 1}};
  const std::vector<std::pair<LoaderRequest, Digest128>> cases = {
      {request({packs(0, 3)}), old},
      {request({selected}), selection_fingerprint(old, slice)},
      {request({weighted}), *mixture_fingerprint(std::array{old}, mixture)},
      {listed, explicit_order_fingerprint(old, *listed.items)}};
  for (const auto& [asked, fingerprint] : cases) {
    LoaderSetup setup = make_setup(asked);
    EXPECT_NE(setup.fingerprint(), fingerprint);
    Cursor saved = setup.cursor(1, 4);
    saved.fingerprint = fingerprint;
    ASSERT_TRUE(setup.resume(saved).ok()) << setup.resume(saved).message();
    EXPECT_NE(setup.cursor(1, 4).fingerprint, fingerprint) << "new cursors say it";
    saved.fingerprint.low ^= 1;
    EXPECT_EQ(setup.resume(saved).code(), Code::invalid_argument);
  }
  LoaderSetup other = make_setup(request({packs(0, 4)}));
  EXPECT_EQ(other.resume(make_setup(request({packs(0, 3)})).cursor(0, 4)).code(),
            Code::invalid_argument);
}

}  // namespace
}  // namespace stoker::testing
