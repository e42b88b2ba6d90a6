// Token windows: rows of one array, read in place.
#include <gtest/gtest.h>

#include "dataset/loader_support.h"

namespace stoker::testing {
namespace {

/// 40 sequences of 25 tokens; the whole is one stream.
class LoaderTokensTest : public ::testing::Test {
 protected:
  void SetUp() override {
    write_tokens(dir_.file("t.npy"), TokenFormat::npy, 40, 25);
    const auto dataset = ShardDataset::open(dir_.file("t.npy"));
    ASSERT_TRUE(dataset.ok()) << dataset.status().message();
    dataset_ = *dataset;
    for (std::uint64_t i = 0; i < 40; ++i)
      for (std::uint64_t k = 0; k < 25; ++k)
        stream_.push_back(static_cast<std::uint16_t>(i * 100 + k));
  }

  LoaderRunOptions options(const TokenWindows::Options& windows,
                           Shuffle shuffle = Shuffle::global) {
    auto made = TokenWindows::make(*dataset_, windows);
    EXPECT_TRUE(made.ok()) << made.status().message();
    LoaderRunOptions options;
    options.datasets = {dataset_};
    options.windows = {std::make_shared<const TokenWindows>(*std::move(made))};
    options.order =
        *make_order({.shuffle = shuffle, .seed = 5, .sample_count = options.windows[0]->count()});
    options.cut = {.global_batch_size = 8};
    options.threads = 2;
    return options;
  }

  DatasetDir dir_;
  std::shared_ptr<const ShardDataset> dataset_;
  std::vector<std::uint16_t> stream_;
};

TEST_F(LoaderTokensTest, rows_are_the_windows_of_the_stream) {
  for (const bool widened : {false, true}) {
    LoaderRunOptions loader_options = options({.window = 16, .extra = 1});
    if (widened)
      loader_options.fields = {{.name = "ids", .kind = FieldKind::tokens, .dtype = Dtype::int64}};
    loader_options.end_epoch = 2;
    const auto loader = start_loader(loader_options);
    EXPECT_EQ(*loader->batch_count(), 14U);
    for (std::uint64_t b = 0; b < 14; ++b) {
      const NextBatch next = loader->next();
      ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
      const Column& column = next.batch.columns()[0];
      EXPECT_EQ(column.name, widened ? "ids" : "tokens");
      ASSERT_EQ(column.shape[0], 8U);
      ASSERT_EQ(column.shape[1], 17U);
      std::vector<std::int64_t> rows;
      if (widened) {
        rows = numbers_of<std::int64_t>(column);
      } else {
        for (const std::uint16_t token : numbers_of<std::uint16_t>(column)) rows.push_back(token);
      }
      for (std::size_t row = 0; row < 8; ++row) {
        const SampleRef ref = loader_options.order->at(b / 7, b % 7 * 8 + row);
        EXPECT_EQ(next.batch.samples()[row], ref);
        for (std::size_t k = 0; k < 17; ++k)
          ASSERT_EQ(rows[row * 17 + k], stream_[ref.sample * 16 + k]);
      }
    }
    EXPECT_EQ(loader->next().kind, Kind::end);
  }
}

TEST_F(LoaderTokensTest, negative_tokens_keep_their_sign) {
  std::vector<std::int16_t> tokens(64);
  for (std::size_t i = 0; i < 64; ++i)
    tokens[i] = static_cast<std::int16_t>(-32768 + 700 * static_cast<int>(i));
  write_file(dir_.file("t.bin"), std::as_bytes(std::span(tokens)));
  ShardDataset::Options raw;
  raw.source = {.format = "raw", .dtype = Dtype::int16};
  const std::string path = dir_.file("t.bin");
  const auto dataset = ShardDataset::open({&path, 1}, raw);
  ASSERT_TRUE(dataset.ok()) << dataset.status().message();
  dataset_ = *dataset;
  LoaderRunOptions loader_options = options({.window = 8}, Shuffle::off);
  loader_options.fields = {{.name = "ids", .kind = FieldKind::tokens, .dtype = Dtype::int64}};
  const auto loader = start_loader(loader_options);
  const NextBatch next = loader->next();
  ASSERT_EQ(next.kind, Kind::batch);
  EXPECT_EQ(numbers_of<std::int64_t>(next.batch.columns()[0]),
            std::vector<std::int64_t>(tokens.begin(), tokens.end()));
}

TEST_F(LoaderTokensTest, the_least_memory_is_enough_and_all_comes_back) {
  LoaderRunOptions loader_options = options({.window = 16, .stride = 3});
  loader_options.end_epoch = 5;
  loader_options.threads = 4;
  loader_options.memory_bytes = *LoaderRun::memory_needed(loader_options);
  const auto loader = start_loader(loader_options);
  while (loader->next().kind == Kind::batch) {
  }
  EXPECT_EQ(loader->stats().batches, *loader->batch_count());
  EXPECT_EQ(loader->stats().leased_bytes, 0U);
}

TEST_F(LoaderTokensTest, what_is_no_window_is_refused) {
  LoaderRunOptions loader_options = options({.window = 16});
  loader_options.fields = {{.name = "x"}};
  EXPECT_EQ(LoaderRun::start(loader_options).status().message(),
            "token windows have one column, of the kind \"tokens\"");
  loader_options = options({.window = 16});
  loader_options.datasets.push_back(dataset_);
  loader_options.windows.push_back(options({.window = 8}).windows[0]);
  loader_options.order = *make_mixture_order(
      {.order = {},
       .parts = {{loader_options.windows[0]->count()}, {loader_options.windows[1]->count()}}});
  EXPECT_EQ(LoaderRun::start(loader_options).status().message(),
            "the datasets of a mixture need windows of one length: 16 tokens in one, 8 in another");
  loader_options = options({.window = 16});
  loader_options.windows.clear();
  loader_options.fields = {{.name = "ids", .kind = FieldKind::tokens}};
  EXPECT_EQ(LoaderRun::start(loader_options).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker::testing
