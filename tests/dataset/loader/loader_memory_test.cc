// The memory of a loader: what it needs, that it takes no more, and what becomes of a caller who
// holds all of it.
#include <gtest/gtest.h>

#include "dataset/batch/batch_data.h"
#include "dataset/loader_support.h"
#include "io/engine/arena.h"
#include "io/engine/buffer_pool.h"

namespace stoker::testing {
namespace {

TEST(LoaderMemoryTest, too_little_is_refused_with_the_figure) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(10);
  const auto needed = LoaderRun::memory_needed(options);
  ASSERT_TRUE(needed.ok());
  options.memory_bytes = *needed - 1;
  const auto refused = LoaderRun::start(options);
  EXPECT_EQ(refused.status().code(), Code::invalid_argument);
  const std::string message(refused.status().message());
  EXPECT_NE(message.find("memory_bytes is " + std::to_string(*needed - 1)), std::string::npos)
      << message;
  EXPECT_NE(message.find(std::to_string(*needed) + " are needed"), std::string::npos);
  EXPECT_NE(message.find("lower the batch size"), std::string::npos);
  options.memory_bytes = *needed;
  EXPECT_EQ(all_batches(options).size(), 6U);
}

TEST(LoaderMemoryTest, the_figure_is_three_worst_batches_and_the_largest_sample) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(10);
  options.cut.world_size = 2;  // this rank has 5
  const auto room = [&](std::uint64_t samples) {
    return BufferPool::size_class_bytes(
        RecordFetcher::memory_bytes_max(*data.dataset(), samples, options.fetch));
  };
  EXPECT_EQ(*LoaderRun::memory_needed(options), 3 * room(5) + room(1));
  options.fields = {{.name = "cls", .kind = FieldKind::int64}};  // a page for the array
  EXPECT_EQ(*LoaderRun::memory_needed(options), 3 * (room(5) + 4096) + room(1));
}

TEST(LoaderMemoryTest, micro_batches_bound_it_whatever_the_batch_is) {
  const LoaderData data(60, 30, 5000);
  LoaderRunOptions options = data.options(4);
  const std::size_t needed = *LoaderRun::memory_needed(options);
  options = data.options(20);
  EXPECT_GT(*LoaderRun::memory_needed(options), needed);
  options.cut.micro_batch_size = 4;
  EXPECT_EQ(*LoaderRun::memory_needed(options), needed);
  options.memory_bytes = needed;
  EXPECT_EQ(all_batches(options).size(), 15U);
}

TEST(LoaderMemoryTest, records_that_no_column_looks_into_go_at_once) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(10);
  options.fields = {{.name = "cls", .kind = FieldKind::int64}};
  const auto loader = start_loader(options);
  const NextBatch next = loader->next();
  ASSERT_EQ(next.kind, Kind::batch);
  EXPECT_EQ(next.batch.leased_bytes(), 4096U);
}

TEST(LoaderMemoryTest, the_least_is_enough_for_every_order_and_fields) {
  const LoaderData data(200, 60);
  for (const Shuffle shuffle : {Shuffle::off, Shuffle::global, Shuffle::block}) {
    for (const bool all : {true, false}) {
      LoaderRunOptions options = data.options(20, shuffle);
      if (!all) options.fields = {{.name = "cls", .kind = FieldKind::int64}};
      options.end_epoch = 5;
      options.threads = 4;
      const std::vector<std::string> roomy = all_batches(options);
      options.memory_bytes = *LoaderRun::memory_needed(options);
      EXPECT_EQ(all_batches(options), roomy);
    }
  }
}

TEST(LoaderMemoryTest, arrays_and_nothing_else_are_in_the_memory_that_is_given_for_them) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(10);
  options.fields = {{.name = "cls", .kind = FieldKind::int64},
                    {.name = "raw", .kind = FieldKind::bytes, .field = "cls"}};
  const auto inside = [](std::span<const std::byte> bytes, std::span<const std::byte> memory) {
    return bytes.data() >= memory.data() && bytes.data() < memory.data() + memory.size();
  };
  for (const std::size_t spare : {std::size_t{0}, std::size_t{64} << 20}) {
    std::span<const std::byte> given;
    options.memory_bytes = *LoaderRun::memory_needed(options) + spare;
    options.array_memory = [&](std::size_t size_bytes) -> Result<std::unique_ptr<Arena>> {
      STOKER_ASSIGN(MappedArena arena, MappedArena::map(size_bytes, false, true));
      given = arena.bytes();
      return std::unique_ptr<Arena>(std::make_unique<MappedArena>(std::move(arena)));
    };
    const auto loader = start_loader(options);
    EXPECT_GE(given.size(), 3U * 4096);
    for (int number = 0; number < 6; ++number) {
      NextBatch next = loader->next();
      ASSERT_EQ(next.kind, Kind::batch);
      EXPECT_TRUE(inside(next.batch.find("cls")->data, given));
      for (const auto& view : next.batch.find("raw")->views) EXPECT_FALSE(inside(view, given));
      EXPECT_TRUE(next.batch.has_arrays());  // also if it was made in the memory of an earlier one
      const Lease taken = internal::BatchInside::take_arrays(next.batch);
      EXPECT_FALSE(next.batch.has_arrays());
      EXPECT_TRUE(inside(taken.bytes(), given));
      EXPECT_TRUE(next.batch.find("cls")->data.empty());
    }
    EXPECT_EQ(loader->next().kind, Kind::end);
  }
}

TEST(LoaderMemoryTest, it_never_takes_more_than_its_budget) {
  const LoaderData data(200, 60);
  LoaderRunOptions options = data.options(20);
  options.end_epoch = 20;
  options.threads = 4;
  options.memory_bytes = *LoaderRun::memory_needed(options);
  const auto loader = start_loader(options);
  const std::size_t budget = loader->stats().memory_bytes;
  EXPECT_LT(budget, options.memory_bytes + (std::size_t{2} << 20));
  for (;;) {
    const NextBatch next = loader->next();
    if (next.kind == Kind::end) break;
    ASSERT_EQ(next.kind, Kind::batch);
    ASSERT_LE(loader->stats().leased_bytes, budget);
    ASSERT_GE(loader->stats().leased_bytes, next.batch.leased_bytes());
  }
}

TEST(LoaderMemoryTest, a_large_sample_among_small_ones_fits) {
  DatasetDir dir;
  std::vector<OwnedSample> samples = make_samples(50);
  samples[20] = make_sample(20, 3 << 20);
  write_tar(dir.file("a.tar"), samples);
  const auto dataset = ShardDataset::open(dir.file("a.tar"));
  ASSERT_TRUE(dataset.ok());
  LoaderRunOptions options;
  options.datasets = {*dataset};
  options.order = *make_order({.sample_count = 50});
  options.cut = {.global_batch_size = 5};
  options.end_epoch = 10;
  options.memory_bytes = *LoaderRun::memory_needed(options);
  EXPECT_EQ(all_batches(options).size(), 100U);
  // Room for the largest once in each of three batches, not for five of them.
  EXPECT_LT(options.memory_bytes, std::size_t{24} << 20);
}

/// Takes batches and keeps them until none comes. The memory is enough for three: a refusal before
/// that only says that the loader has not noticed yet what was given back.
NextBatch hold_all(LoaderRun& loader, std::vector<Batch>& held) {
  for (;;) {
    NextBatch next = loader.next();
    if (next.kind == Kind::batch) {
      held.push_back(std::move(next.batch));
    } else if (next.kind != Kind::memory_held || held.size() >= 3) {
      return next;
    }
  }
}

LoaderRunOptions tight(const LoaderData& data) {
  LoaderRunOptions options = data.options(20);
  options.end_epoch = std::nullopt;
  options.memory_bytes = *LoaderRun::memory_needed(options);
  options.held_warning = nanoseconds(0);  // no test waits for half a minute
  options.held_limit = nanoseconds(1);
  return options;
}

TEST(LoaderMemoryTest, a_caller_who_holds_all_of_it_is_told_and_may_go_on) {
  const LoaderData data(60);
  const LoaderRunOptions loader_options = tight(data);
  const auto loader = start_loader(loader_options);
  for (int round = 0; round < 3; ++round) {
    std::vector<Batch> held;
    const NextBatch answer = hold_all(*loader, held);
    ASSERT_EQ(answer.kind, Kind::memory_held);
    EXPECT_EQ(answer.status.code(), Code::unavailable);
    const std::string message(answer.status.message());
    EXPECT_NE(message.find("the batches that the caller still holds"), std::string::npos);
    EXPECT_NE(message.find("raise memory_bytes"), std::string::npos);
    const std::string given = std::to_string(loader_options.memory_bytes);
    EXPECT_NE(message.find("(memory_bytes for this process is " + given + ", rounded up"),
              std::string::npos);
    EXPECT_EQ(hold_all(*loader, held).kind, Kind::memory_held);  // still
    const std::uint64_t number = held.back().number();
    held.clear();
    NextBatch next = loader->next();
    while (next.kind == Kind::memory_held) next = loader->next();  // it may not have noticed yet
    ASSERT_EQ(next.kind, Kind::batch);
    EXPECT_EQ(next.batch.number(), number + 1);  // none was lost
  }
  EXPECT_GE(loader->stats().held_errors, 6U);
}

TEST(LoaderMemoryTest, a_long_wait_counts_a_warning) {
  const LoaderData data(60);
  LoaderRunOptions options = tight(data);
  options.held_limit = nanoseconds(2'000'000);
  const auto loader = start_loader(options);
  std::vector<Batch> held;
  ASSERT_EQ(hold_all(*loader, held).kind, Kind::memory_held);
  EXPECT_EQ(loader->stats().held_warnings, 1U);
  EXPECT_EQ(loader->stats().held_errors, 1U);
}

TEST(LoaderMemoryTest, a_deadline_ends_the_wait_and_the_count_goes_on) {
  const LoaderData data(60);
  LoaderRunOptions options = tight(data);
  options.held_limit = nanoseconds(5'000'000);
  const auto loader = start_loader(options);
  std::vector<Batch> held;
  for (int timeouts = 0;;) {
    NextBatch next = loader->next(deadline_after(nanoseconds(100'000)));
    if (next.kind == Kind::memory_held) {
      EXPECT_GT(timeouts, 0);
      break;
    }
    if (next.kind == Kind::timeout) ++timeouts;
    if (next.kind == Kind::batch) held.push_back(std::move(next.batch));
  }
}

TEST(LoaderMemoryTest, batches_given_back_in_any_order_leave_room_for_more) {
  const LoaderData data(200, 60);
  LoaderRunOptions options = data.options(20);
  options.end_epoch = std::nullopt;
  options.memory_bytes = 4 * *LoaderRun::memory_needed(options);
  const auto loader = start_loader(options);
  std::vector<Batch> held(4);
  for (std::size_t i = 0; i < 500; ++i) {
    NextBatch next = loader->next();
    ASSERT_EQ(next.kind, Kind::batch);
    held[i * 7 % 4] = std::move(next.batch);
  }
}

}  // namespace
}  // namespace stoker::testing
