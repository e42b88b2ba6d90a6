// What comes out of a loader: the samples that the order names, as ShardDataset::read() has them,
// however many threads, ranks and interruptions there are.
#include "dataset/loader/loader_order.h"

#include <gtest/gtest.h>

#include "dataset/loader_support.h"
#include "dataset/order/block_samples.h"
#include "dataset/order/explicit_order.h"

namespace stoker::testing {
namespace {

/// What a batch should be, from the order, the cut and ShardDataset::read() alone.
std::string expected_batch(const LoaderRunOptions& options, std::uint64_t epoch,
                           std::uint64_t position) {
  BatchCutOptions cut_options = options.cut;
  cut_options.epoch_samples = options.order->epoch_samples();
  const BatchCut cut = *BatchCut::make(cut_options);
  const BatchCut::Part part = cut.part(position);
  std::string out = "epoch " + std::to_string(epoch) + " to " +
                    std::to_string(cut.next_position(position)) + "\n";
  for (std::uint64_t slot = 0; slot < part.count; ++slot) {
    const std::uint64_t at = cut.position_of(part, slot);
    const SampleRef ref = options.order->at(epoch, at);
    SampleRecord record;
    EXPECT_TRUE(options.datasets[ref.dataset]->read(ref.sample, record).ok());
    out += std::to_string(at) + " " + std::to_string(ref.dataset) + ":" +
           std::to_string(ref.sample) + " " + record.key() +
           (slot < part.valid_count ? "" : " filled");
    for (const FieldView& field : record.view().fields)
      out += " " + std::string(field.name) + "=" + text_of(field.bytes);
    out += "\n";
  }
  return out;
}

std::vector<std::string> expected_run(const LoaderRunOptions& options) {
  BatchCutOptions cut_options = options.cut;
  cut_options.epoch_samples = options.order->epoch_samples();
  const BatchCut cut = *BatchCut::make(cut_options);
  std::vector<std::string> out;
  std::uint64_t position = options.cursor.position;
  for (std::uint64_t epoch = options.cursor.epoch; epoch < *options.end_epoch; ++epoch) {
    for (; cut.batches_from(position) > 0; position = cut.next_position(position))
      out.push_back(expected_batch(options, epoch, position));
    position = 0;
  }
  return out;
}

constexpr Shuffle kShuffles[] = {Shuffle::off, Shuffle::global, Shuffle::block, Shuffle::resampled};
constexpr Tail kTails[] = {Tail::drop, Tail::keep, Tail::wrap, Tail::pad};

TEST(LoaderOrderTest, batches_are_what_the_order_and_the_dataset_say) {
  const LoaderData data(100);
  for (const Shuffle shuffle : kShuffles) {
    for (const Tail tail : kTails) {
      for (const std::size_t threads : {0U, 1U, 5U}) {  // 0: tuned
        LoaderRunOptions options = data.options(12, shuffle);
        options.cut.tail = tail;
        options.end_epoch = 2;
        options.threads = threads;
        SCOPED_TRACE(std::string(shuffle_name(shuffle)) + " " + std::string(tail_name(tail)) + " " +
                     std::to_string(threads));
        const std::vector<std::string> expected = expected_run(options);
        EXPECT_EQ(all_batches(options), expected);
        EXPECT_GE(expected.size(), 16U);
      }
    }
  }
}

TEST(LoaderOrderTest, every_rank_gets_its_part) {
  const LoaderData data(100);
  for (const Tail tail : kTails) {
    for (const std::uint64_t world : {2U, 3U, 12U}) {
      for (std::uint64_t rank = 0; rank < world; ++rank) {
        LoaderRunOptions options = data.options(12);
        options.cut.tail = tail;
        options.cut.world_size = world;
        options.cut.rank = rank;
        const std::vector<std::string> expected = expected_run(options);
        EXPECT_EQ(all_batches(options), expected);
        EXPECT_EQ(expected.size(), tail == Tail::drop ? 8U : 9U);  // the same on every rank
      }
    }
  }
}

TEST(LoaderOrderTest, a_run_that_was_cut_anywhere_goes_on_from_its_cursor) {
  const LoaderData data(50);
  for (const Shuffle shuffle : kShuffles) {
    LoaderRunOptions options = data.options(8, shuffle);
    options.end_epoch = 2;
    options.cut.tail = Tail::keep;
    const std::vector<std::string> whole = all_batches(options);
    ASSERT_EQ(whole.size(), 14U);
    for (std::size_t cut = 1; cut <= whole.size(); ++cut) {
      Cursor cursor;
      {
        const auto loader = start_loader(options);
        for (std::size_t i = 0; i < cut; ++i) {
          const NextBatch next = loader->next();
          ASSERT_EQ(next.kind, Kind::batch);
          cursor = next.batch.cursor();
        }
      }  // what was read ahead is of no account
      const auto copy = decode_cursor(encode_cursor(cursor));
      ASSERT_TRUE(copy.ok());
      LoaderRunOptions rest = options;
      rest.cursor = *copy;
      const std::vector<std::string> expected(whole.begin() + static_cast<std::ptrdiff_t>(cut),
                                              whole.end());
      EXPECT_EQ(all_batches(rest), expected) << "cut after " << cut;
    }
  }
}

/// The keys of each step, of all its micro-batches; and the cursor after each.
struct StepsTaken {
  std::vector<std::string> keys;
  std::vector<Cursor> cursors;
};

StepsTaken take_steps(const LoaderRunOptions& options) {
  StepsTaken steps;
  const auto loader = start_loader(options);
  std::string keys;
  std::uint64_t expected = 0;
  std::uint64_t count = 0;
  for (NextBatch next = loader->next(); next.kind == Kind::batch; next = loader->next(), ++count) {
    const Batch& batch = next.batch;
    EXPECT_EQ(batch.micro_batch(), expected);
    EXPECT_LE(batch.size(), options.cut.micro_batch_size);
    for (std::size_t i = 0; i < batch.size(); ++i) keys += batch.key(i) + " ";
    if (!batch.last()) {
      EXPECT_EQ(batch.cursor().position, batch.position()) << "only whole steps count";
      ++expected;
      continue;
    }
    expected = 0;
    steps.keys.push_back(std::exchange(keys, ""));
    steps.cursors.push_back(batch.cursor());
  }
  EXPECT_EQ(keys, "") << "the last micro-batch of a run is the last of a step";
  EXPECT_EQ(count, loader->batch_count());
  return steps;
}

TEST(LoaderOrderTest, micro_batches_make_the_same_steps_and_cursors) {
  const LoaderData data(100);
  for (const Shuffle shuffle : kShuffles) {
    for (const Tail tail : kTails) {
      for (const std::uint64_t world : {1U, 2U}) {
        SCOPED_TRACE(std::string(shuffle_name(shuffle)) + " " + std::string(tail_name(tail)));
        LoaderRunOptions options = data.options(12, shuffle);
        options.cut.tail = tail;
        options.cut.world_size = world;
        options.cut.rank = world - 1;
        options.end_epoch = 2;
        options.cut.micro_batch_size = 12 / world;
        const StepsTaken whole = take_steps(options);
        EXPECT_EQ(whole.keys.size(), tail == Tail::drop ? 16U : 18U);
        for (const std::uint64_t micro : {1U, 2U, 3U, 6U}) {
          options.cut.micro_batch_size = micro;
          const StepsTaken steps = take_steps(options);
          EXPECT_EQ(steps.keys, whole.keys);
          EXPECT_EQ(steps.cursors, whole.cursors);
        }
        for (const std::size_t done : {1U, 8U, 9U}) {  // on with another size from any of them
          LoaderRunOptions rest = options;
          rest.cursor = whole.cursors[done - 1];
          rest.cut.micro_batch_size = 2;
          EXPECT_EQ(take_steps(rest).keys,
                    std::vector<std::string>(whole.keys.begin() + static_cast<std::ptrdiff_t>(done),
                                             whole.keys.end()));
        }
      }
    }
  }
}

TEST(LoaderOrderTest, another_global_batch_goes_on_where_the_old_one_stood) {
  const LoaderData data(100);
  LoaderRunOptions options = data.options(12);
  const auto loader = start_loader(options);
  const NextBatch first = loader->next();
  ASSERT_EQ(first.kind, Kind::batch);
  options.cursor = first.batch.cursor();
  options.cut.global_batch_size = 8;
  const auto on = start_loader(options);
  const NextBatch second = on->next();
  ASSERT_EQ(second.kind, Kind::batch);
  for (std::uint64_t i = 0; i < 8; ++i) EXPECT_EQ(second.batch.positions()[i], 12 + i);
  EXPECT_EQ(second.batch.cursor().global_batch_size, 8U);
}

TEST(LoaderOrderTest, a_mixture_takes_from_all_its_datasets) {
  const LoaderData first(40);
  const LoaderData second(25, 10);
  MixtureOptions mixture{.order = {.shuffle = Shuffle::global, .seed = 3},
                         .parts = {{40, 0.7}, {25, 0.3}}};
  LoaderRunOptions options = first.options(10);
  options.datasets = {first.dataset(), second.dataset()};
  options.order = *make_mixture_order(mixture);
  options.end_epoch = 3;
  const std::vector<std::string> expected = expected_run(options);
  EXPECT_EQ(all_batches(options), expected);
  EXPECT_EQ(expected.size(), 18U);
}

TEST(LoaderOrderTest, a_list_is_an_order) {
  const LoaderData data(30);
  LoaderRunOptions options = data.options(4);
  auto order = make_explicit_order({5, 5, 29, 0, 1, 2, 17, 5}, 30);
  ASSERT_TRUE(order.ok());
  options.order = *std::move(order);
  options.end_epoch = 2;
  EXPECT_EQ(all_batches(options), expected_run(options));

  const auto outside = make_explicit_order({1, 30}, 30);
  EXPECT_EQ(outside.status().code(), Code::invalid_argument);
  EXPECT_EQ(outside.status().message(),
            "item 1 of the order is sample 30, but the dataset's sample count is 30");
  EXPECT_EQ(make_explicit_order({}, 30).status().code(), Code::invalid_argument);
}

TEST(LoaderOrderTest, a_run_may_be_endless_or_empty) {
  const LoaderData data(20);
  LoaderRunOptions options = data.options(10);
  options.end_epoch = std::nullopt;
  const auto loader = start_loader(options);
  EXPECT_FALSE(loader->batch_count());
  for (std::uint64_t i = 0; i < 50; ++i) {
    const NextBatch next = loader->next();
    ASSERT_EQ(next.kind, Kind::batch);
    EXPECT_EQ(next.batch.epoch(), i / 2);
  }
  options.end_epoch = 0;
  const auto none = start_loader(options);
  EXPECT_EQ(none->batch_count(), 0U);
  EXPECT_EQ(none->next().kind, Kind::end);
  EXPECT_EQ(none->next().kind, Kind::end);
}

TEST(LoaderOrderTest, far_positions_and_epochs_cost_what_the_first_do) {
  const LoaderData data(20);
  LoaderRunOptions options = data.options(10);
  options.cursor.epoch = 1'000'000'000'000'000;
  options.cursor.position = 10;
  options.end_epoch = std::nullopt;
  const auto loader = start_loader(options);
  const NextBatch next = loader->next();
  ASSERT_EQ(next.kind, Kind::batch);
  EXPECT_EQ(written_down(next.batch), expected_batch(options, 1'000'000'000'000'000, 10));
}

TEST(LoaderOrderTest, an_order_left_to_the_data_has_blocks_of_so_many_bytes) {
  const LoaderData data(2000);
  LoaderRunOptions options = data.options(4);
  options.order = nullptr;
  options.cursor.order = {.shuffle = Shuffle::block, .seed = 7};
  const auto resolved = resolve_order(options);
  ASSERT_TRUE(resolved.ok()) << resolved.status().message();
  std::uint64_t plain_bytes = 0;
  for (const IndexedShard& shard : data.dataset()->index().shards())
    plain_bytes += shard.plain_size_bytes;
  EXPECT_EQ(resolved->sample_count, 2000U);
  EXPECT_EQ(resolved->deal_samples, 4U);
  EXPECT_EQ(resolved->lanes, 4U);
  EXPECT_EQ(
      resolved->block_samples,
      choose_block_samples({.sample_count = 2000, .sample_bytes = plain_bytes / 2000, .lanes = 4}));
  EXPECT_NE(resolved->block_samples, kBlockSamplesDefault);

  const std::vector<std::string> found = all_batches(options);
  options.cursor.order = *resolved;
  options.order = *make_order(*resolved);
  EXPECT_EQ(found, expected_run(options));
  options.cursor.order.block_samples = 5;  // as a cursor has kept it
  EXPECT_EQ(resolve_order(options)->block_samples, 5U);
}

TEST(LoaderOrderTest, options_that_can_never_work_are_refused) {
  const LoaderData data(20);
  const auto refused = [](const LoaderRunOptions& options) {
    const auto loader = LoaderRun::start(options);
    EXPECT_EQ(loader.status().code(), Code::invalid_argument);
    return std::string(loader.status().message());
  };
  LoaderRunOptions options = data.options(10);
  options.datasets = {};
  EXPECT_EQ(refused(options), "a loader needs a dataset");
  options = data.options(10);
  options.order = nullptr;
  options.datasets.push_back(data.dataset());
  EXPECT_EQ(refused(options), "a loader of several datasets needs an order");
  options = data.options(10);
  options.datasets.push_back(data.dataset());
  EXPECT_EQ(refused(options), "the order is for 1 datasets, but 2 were given");
  options = data.options(10);
  options.cursor.position = 21;
  EXPECT_EQ(refused(options), "the cursor's position 21 is past the 20 samples of an epoch");
  options = data.options(21);  // drop would leave nothing, for ever
  refused(options);
  options = data.options(10);
  options.cut.world_size = 3;
  refused(options);
  options = data.options(10);
  options.threads = 100'000;
  refused(options);
}

}  // namespace
}  // namespace stoker::testing
