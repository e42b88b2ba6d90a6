#include "dataset/order/batch_cut.h"

#include <gtest/gtest.h>

#include "dataset/order_support.h"
#include "stoker/cursor.h"

namespace stoker::testing {
namespace {

BatchCut cut_of(std::uint64_t batch, std::uint64_t rank, std::uint64_t world, Tail tail,
                std::uint64_t epoch_samples) {
  const auto cut = BatchCut::make({.global_batch_size = batch,
                                   .rank = rank,
                                   .world_size = world,
                                   .tail = tail,
                                   .epoch_samples = epoch_samples});
  EXPECT_TRUE(cut.ok()) << cut.status().message();
  return *cut;
}

std::vector<std::uint64_t> positions(const BatchCut& cut, std::uint64_t begin) {
  std::vector<std::uint64_t> list;
  const BatchCut::Part part = cut.part(begin);
  for (std::uint64_t slot = 0; slot < part.count; ++slot)
    list.push_back(cut.position_of(part, slot));
  return list;
}

using List = std::vector<std::uint64_t>;

TEST(BatchCutTest, ranks_have_equal_parts_of_each_batch_in_order) {
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const BatchCut cut = cut_of(6, rank, 3, Tail::drop, 20);
    EXPECT_EQ(cut.rank_batch_size(), 2U);
    EXPECT_EQ(cut.batches_from(0), 3U);
    for (std::uint64_t batch = 0; batch < 3; ++batch)
      EXPECT_EQ(positions(cut, 6 * batch), (List{6 * batch + 2 * rank, 6 * batch + 2 * rank + 1}));
  }
}

TEST(BatchCutTest, drop_leaves_the_tail_out) {
  const BatchCut cut = cut_of(6, 0, 3, Tail::drop, 20);
  EXPECT_EQ(cut.batches_from(12), 1U);
  EXPECT_EQ(cut.next_position(12), 18U);
  EXPECT_EQ(cut.batches_from(18), 0U);
  EXPECT_EQ(cut.part(18), BatchCut::Part{});
}

TEST(BatchCutTest, keep_gives_short_and_empty_parts_and_as_many_on_every_rank) {
  const std::vector<List> expected = {{18, 19}, {}, {}};
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const BatchCut cut = cut_of(6, rank, 3, Tail::keep, 20);
    EXPECT_EQ(cut.batches_from(0), 4U);
    EXPECT_EQ(positions(cut, 18), expected[rank]);
    EXPECT_EQ(cut.part(18).valid_count, expected[rank].size());
    EXPECT_EQ(cut.next_position(18), 20U);
    EXPECT_EQ(cut.batches_from(20), 0U);
  }
  EXPECT_EQ(positions(cut_of(6, 1, 2, Tail::keep, 22), 18), (List{21}));
}

TEST(BatchCutTest, wrap_fills_up_from_the_start_of_the_epoch) {
  const std::vector<List> expected = {{18, 19}, {0, 1}, {2, 3}};
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const BatchCut cut = cut_of(6, rank, 3, Tail::wrap, 20);
    EXPECT_EQ(cut.batches_from(0), 4U);
    EXPECT_EQ(positions(cut, 18), expected[rank]);
    EXPECT_EQ(cut.part(18).valid_count, 2U);
    EXPECT_EQ(cut.next_position(18), 20U);
  }
  EXPECT_EQ(positions(cut_of(7, 0, 1, Tail::wrap, 3), 0), (List{0, 1, 2, 0, 1, 2, 0}));
}

TEST(BatchCutTest, pad_fills_up_likewise_and_marks_it) {
  const std::vector<std::uint64_t> valid = {2, 1, 0};
  for (std::uint64_t rank = 0; rank < 3; ++rank) {
    const BatchCut cut = cut_of(6, rank, 3, Tail::pad, 21);
    const BatchCut wrapped = cut_of(6, rank, 3, Tail::wrap, 21);
    EXPECT_EQ(positions(cut, 18), positions(wrapped, 18));
    EXPECT_EQ(cut.part(18).valid_count, valid[rank]);
    EXPECT_EQ(cut.part(12).valid_count, 2U);
  }
}

TEST(BatchCutTest, a_tail_that_is_no_tail_adds_no_batch) {
  for (const Tail tail : {Tail::drop, Tail::keep, Tail::wrap, Tail::pad}) {
    const BatchCut cut = cut_of(5, 0, 1, tail, 20);
    EXPECT_EQ(cut.batches_from(0), 4U);
    EXPECT_EQ(cut.batches_from(20), 0U);
    EXPECT_EQ(cut.batches_from(UINT64_MAX), 0U);
    EXPECT_EQ(cut.next_position(UINT64_MAX), 20U);
    EXPECT_EQ(cut.part(UINT64_MAX), BatchCut::Part{});
  }
}

TEST(BatchCutTest, micro_batches_are_the_part_in_pieces_and_as_many_on_every_rank) {
  for (const Tail tail : {Tail::drop, Tail::keep, Tail::wrap, Tail::pad}) {
    for (const std::uint64_t world : {1U, 2U, 4U}) {
      for (const std::uint64_t micro : {1U, 2U, 3U, 6U}) {
        for (std::uint64_t left = 1; left <= 24; ++left) {  // samples of the last batch
          std::uint64_t on_rank_0 = 0;
          for (std::uint64_t rank = 0; rank < world; ++rank) {
            const BatchCut whole = cut_of(24, rank, world, tail, 72 + left);
            BatchCutOptions options = whole.options();
            options.micro_batch_size = micro;
            const BatchCut cut = *BatchCut::make(options);
            EXPECT_EQ(cut.micro_batches_per_step(), 24 / world / micro);
            std::uint64_t total = 0;
            for (std::uint64_t begin = 0; cut.batches_from(begin) > 0;
                 begin = cut.next_position(begin)) {
              List joined;
              std::uint64_t valid = 0;
              for (std::uint64_t i = 0; i < cut.micro_batches_at(begin); ++i, ++total) {
                const BatchCut::Part part = cut.part(begin, i);
                EXPECT_LE(part.count, micro);
                valid += part.valid_count;
                for (std::uint64_t slot = 0; slot < part.count; ++slot)
                  joined.push_back(cut.position_of(part, slot));
              }
              EXPECT_EQ(joined, positions(whole, begin));
              EXPECT_EQ(valid, whole.part(begin).valid_count);
            }
            EXPECT_EQ(cut.micro_batches_from(0), total);
            EXPECT_EQ(cut.micro_batches_from(72 + left), 0U);
            if (rank == 0) on_rank_0 = total;
            EXPECT_EQ(total, on_rank_0);
          }
        }
      }
    }
  }
}

TEST(BatchCutTest, a_short_batch_has_as_many_micro_batches_as_rank_0_fills) {
  BatchCutOptions options = cut_of(8, 1, 2, Tail::keep, 10).options();
  options.micro_batch_size = 1;
  const BatchCut cut = *BatchCut::make(options);  // of the last batch, rank 0 has both samples
  EXPECT_EQ(cut.micro_batches_at(0), 4U);
  EXPECT_EQ(cut.micro_batches_at(8), 2U);
  EXPECT_EQ(cut.part(8, 0).count + cut.part(8, 1).count, 0U);
  options.micro_batch_size = 3;
  const auto refused = BatchCut::make(options);
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  EXPECT_NE(refused.status().message().find("the 4 samples of a rank"), std::string::npos);
}

TEST(BatchCutTest, every_position_is_somebodys_exactly_once) {
  for (const Tail tail : {Tail::keep, Tail::pad}) {
    for (const std::uint64_t world : {1U, 2U, 3U, 4U, 6U, 12U}) {
      std::vector<int> seen(101);
      for (std::uint64_t rank = 0; rank < world; ++rank) {
        const BatchCut cut = cut_of(12, rank, world, tail, 101);
        for (std::uint64_t begin = 0; cut.batches_from(begin) > 0; begin = cut.next_position(begin))
          for (std::uint64_t slot = 0; slot < cut.part(begin).valid_count; ++slot)
            ++seen[cut.position_of(cut.part(begin), slot)];
      }
      EXPECT_EQ(seen, std::vector<int>(101, 1)) << world << " ranks";
    }
  }
}

TEST(BatchCutTest, what_cannot_be_cut_is_refused_with_the_reason) {
  const auto refusal = [](const BatchCutOptions& options) {
    const auto cut = BatchCut::make(options);
    EXPECT_FALSE(cut.ok());
    return std::string(cut.status().message());
  };
  const BatchCutOptions good = {.global_batch_size = 8, .world_size = 2, .epoch_samples = 100};
  ASSERT_TRUE(BatchCut::make(good).ok());
  BatchCutOptions options = good;
  options.global_batch_size = 0;
  EXPECT_NE(refusal(options).find("not 0"), std::string::npos);
  options.global_batch_size = UINT64_MAX;
  EXPECT_NE(refusal(options).find("1 to 2^40"), std::string::npos);
  options = good;
  options.world_size = 0;
  EXPECT_NE(refusal(options).find("world_size must be at least 1"), std::string::npos);
  options.world_size = 3;
  EXPECT_NE(refusal(options).find("8 cannot be divided among 3 ranks"), std::string::npos);
  options = good;
  options.rank = 2;
  EXPECT_NE(refusal(options).find("no rank 2 in a world of 2"), std::string::npos);
  options = good;
  options.epoch_samples = 0;
  EXPECT_NE(refusal(options).find("no samples"), std::string::npos);
  options.epoch_samples = UINT64_MAX;
  EXPECT_NE(refusal(options).find("2^62"), std::string::npos);
  options.epoch_samples = 7;
  EXPECT_NE(refusal(options).find("no full batch of 8"), std::string::npos);
  options.tail = Tail::keep;
  EXPECT_TRUE(BatchCut::make(options).ok());
  options.tail = static_cast<Tail>(4);
  EXPECT_NE(refusal(options).find("no such tail"), std::string::npos);
  EXPECT_FALSE(parse_tail("dorp").ok());
  EXPECT_EQ(*parse_tail("pad"), Tail::pad);
}

// --- Elastic: any world size, any cut, the same global batches ---------------------------------

using GlobalBatch = std::vector<SampleRef>;

/// The global batches that `world` ranks see from a cursor on, until they have `count` of them.
/// `cursor` is left where they stopped.
std::vector<GlobalBatch> run_from(const SampleOrder& order, std::uint64_t world, std::size_t count,
                                  Cursor& cursor) {
  std::vector<GlobalBatch> batches(count);
  Cursor end;
  for (std::uint64_t rank = 0; rank < world; ++rank) {
    const BatchCut cut =
        cut_of(cursor.global_batch_size, rank, world, cursor.tail, order.epoch_samples());
    Cursor at = cursor;
    for (GlobalBatch& batch : batches) {
      if (cut.batches_from(at.position) == 0) {
        ++at.epoch;
        at.position = 0;
      }
      const BatchCut::Part part = cut.part(at.position);
      std::vector<SampleRef> mine(part.count);
      order.fill(at.epoch, part.first_position, mine);
      batch.insert(batch.end(), mine.begin(), mine.end());
      at.position = cut.next_position(at.position);
    }
    if (rank > 0) {
      EXPECT_EQ(at, end) << "the cursor is the same on all ranks";
    }
    end = at;
  }
  cursor = end;
  return batches;
}

/// `total` batches in one go by one rank, against every cut into two runs of other world sizes.
void expect_elastic(const SampleOrder& order, const OrderOptions& options, Tail tail) {
  constexpr std::size_t kTotal = 14;
  Cursor start;
  start.order = options;
  start.tail = tail;
  start.global_batch_size = 16;
  Cursor whole = start;
  const std::vector<GlobalBatch> expected = run_from(order, 1, kTotal, whole);
  for (const std::uint64_t before : {1U, 2U, 4U, 8U, 16U})
    for (const std::uint64_t after : {1U, 2U, 4U, 8U, 16U})
      for (std::size_t stop = 0; stop <= kTotal; ++stop) {
        Cursor cursor = start;
        std::vector<GlobalBatch> batches = run_from(order, before, stop, cursor);
        auto kept = decode_cursor(encode_cursor(cursor));
        ASSERT_TRUE(kept.ok()) << kept.status().message();
        const std::vector<GlobalBatch> more = run_from(order, after, kTotal - stop, *kept);
        batches.insert(batches.end(), more.begin(), more.end());
        ASSERT_EQ(batches, expected) << before << " ranks, after " << stop << " batches " << after;
        ASSERT_EQ(*kept, whole);
      }
}

TEST(ElasticTest, every_world_size_and_every_cut_gives_the_same_global_batches) {
  for (const Shuffle shuffle :
       {Shuffle::off, Shuffle::global, Shuffle::block, Shuffle::resampled}) {
    const auto options = resolve_order({.shuffle = shuffle,
                                        .seed = 4,
                                        .sample_count = 103,
                                        .block_samples = 4,
                                        .window_blocks = 2,
                                        .lanes = 8,
                                        .deal_samples = 16});
    ASSERT_TRUE(options.ok());
    for (const Tail tail : {Tail::drop, Tail::keep, Tail::wrap, Tail::pad})
      expect_elastic(*order_of(*options), *options, tail);
  }
}

TEST(ElasticTest, so_does_a_mixture) {
  MixtureOptions options;
  options.order = {.seed = 4, .sample_count = 103};
  options.parts = {{.sample_count = 31, .weight = 3}, {.sample_count = 1009, .weight = 1.5}};
  const auto resolved = resolve_mixture(options);
  ASSERT_TRUE(resolved.ok());
  for (const Tail tail : {Tail::drop, Tail::keep, Tail::wrap, Tail::pad})
    expect_elastic(*mixture_of(options), *resolved, tail);
}

TEST(ElasticTest, a_changed_global_batch_goes_on_along_the_same_line_of_samples) {
  const auto options = resolve_order({.shuffle = Shuffle::block,
                                      .seed = 4,
                                      .sample_count = 500,
                                      .block_samples = 4,
                                      .window_blocks = 2,
                                      .deal_samples = 16});
  ASSERT_TRUE(options.ok());
  const auto order = order_of(*options);
  Cursor cursor;
  cursor.order = *options;
  cursor.global_batch_size = 16;
  std::vector<SampleRef> line;
  for (const std::uint64_t batch : {16U, 24U, 10U, 64U}) {
    cursor.global_batch_size = batch;
    for (const GlobalBatch& part : run_from(*order, 2, 3, cursor))
      line.insert(line.end(), part.begin(), part.end());
  }
  std::vector<SampleRef> expected(line.size());
  order->fill(0, 0, expected);
  EXPECT_EQ(line, expected);
}

}  // namespace
}  // namespace stoker::testing
