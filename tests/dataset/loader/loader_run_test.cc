// How a run ends: by an error, by being stopped, destroyed or forked away from, at any moment.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "dataset/loader_support.h"
#include "support/in_child.h"

namespace stoker::testing {
namespace {

/// Where the record of a sample begins, and a byte of its image.
std::uint64_t image_byte(const LoaderData& data, std::uint64_t sample) {
  return data.dataset()->index().locate(sample)->record.offset_bytes + 3 * 512 + 10;
}

std::string shard_of(const LoaderData& data, std::uint64_t sample) {
  return data.paths()[data.dataset()->index().locate(sample)->shard];
}

TEST(LoaderRunTest, an_error_surfaces_at_its_batch_and_stays) {
  const LoaderData data(60);
  flip_bit(shard_of(data, 41), image_byte(data, 41));
  for (const std::size_t threads : {1U, 4U}) {
    LoaderRunOptions options = data.options(10, Shuffle::off);
    options.threads = threads;
    const auto loader = start_loader(options);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(loader->next().kind, Kind::batch) << i;
    for (int i = 0; i < 3; ++i) {
      const NextBatch failed = loader->next();
      EXPECT_EQ(failed.kind, Kind::failed);
      EXPECT_EQ(failed.status.code(), Code::corrupt);
      const std::string message(failed.status.message());
      EXPECT_NE(message.find(shard_of(data, 41) + ": sample 41 at byte "), std::string::npos)
          << message;
      EXPECT_NE(message.find(": key \"folder/0041\": checksum mismatch"), std::string::npos)
          << message;
    }
  }
}

TEST(LoaderRunTest, what_cannot_be_split_is_named_by_the_key_it_has_shown) {
  const LoaderData data(60, 30, 0, /*checksums=*/false);
  flip_bit(shard_of(data, 41), image_byte(data, 41) - 512);  // the header of its second member
  const auto loader = start_loader(data.options(60, Shuffle::off));
  const NextBatch failed = loader->next();
  EXPECT_EQ(failed.status.code(), Code::corrupt);
  const std::string message(failed.status.message());
  EXPECT_NE(message.find(": sample 41 at byte "), std::string::npos) << message;
  EXPECT_NE(message.find(": key \"folder/0041\": "), std::string::npos) << message;
}

TEST(LoaderRunTest, the_first_error_in_the_order_of_samples_is_the_one) {
  const LoaderData data(60);
  for (const std::uint64_t sample : {47U, 42U, 44U})
    flip_bit(shard_of(data, sample), image_byte(data, sample));
  const auto loader = start_loader(data.options(20, Shuffle::off));
  ASSERT_EQ(loader->next().kind, Kind::batch);
  ASSERT_EQ(loader->next().kind, Kind::batch);
  const NextBatch failed = loader->next();
  EXPECT_NE(std::string(failed.status.message()).find("sample 42 at byte"), std::string::npos);
}

TEST(LoaderRunTest, a_skipped_sample_is_replaced_the_same_way_in_every_run) {
  const LoaderData data(60);
  const std::vector<std::string> whole = all_batches(data.options(10));
  flip_bit(shard_of(data, 41), image_byte(data, 41));
  flip_bit(shard_of(data, 3), image_byte(data, 3));
  LoaderRunOptions options = data.options(10);
  options.on_error = OnError::skip;
  options.seed = 7;
  const std::vector<std::string> replaced = all_batches(options);
  EXPECT_EQ(replaced.size(), whole.size());
  EXPECT_NE(replaced, whole);
  for (const std::size_t threads : {1U, 3U}) {
    options.threads = threads;
    EXPECT_EQ(all_batches(options), replaced);
  }
  const auto loader = start_loader(options);
  while (loader->next().kind == Kind::batch) {
  }
  EXPECT_EQ(loader->stats().replaced, 2U);
  EXPECT_EQ(loader->stats().samples, 60U);
  for (const std::string& batch : replaced) {
    EXPECT_EQ(batch.find("folder/0041"), std::string::npos);
    EXPECT_EQ(batch.find("folder/0003"), std::string::npos);
  }
}

TEST(LoaderRunTest, a_sample_without_the_field_can_be_skipped_too) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(10);
  options.fields = {{.name = "txt", .kind = FieldKind::text}};
  options.on_error = OnError::skip;  // but no sample has it
  const auto loader = start_loader(options);
  const NextBatch failed = loader->next();
  EXPECT_EQ(failed.kind, Kind::failed);
  const std::string message(failed.status.message());
  EXPECT_NE(message.find("field \"txt\": the sample has no such field"), std::string::npos);
  EXPECT_NE(message.find("none of 16 replacement samples could be used either"), std::string::npos);
}

TEST(LoaderRunTest, a_shard_that_is_gone_fails_at_its_batch) {
  const LoaderData data(60, 30);
  std::filesystem::remove(data.paths()[1]);
  const auto loader = start_loader(data.options(10, Shuffle::off));
  for (int i = 0; i < 3; ++i) ASSERT_EQ(loader->next().kind, Kind::batch);
  const NextBatch failed = loader->next();
  EXPECT_EQ(failed.kind, Kind::failed);
  EXPECT_NE(std::string(failed.status.message()).find(data.paths()[1]), std::string::npos);
}

TEST(LoaderRunTest, stop_wakes_whoever_waits) {
  const LoaderData data(60);
  for (int round = 0; round < 20; ++round) {
    LoaderRunOptions options = data.options(20);
    options.end_epoch = std::nullopt;
    options.memory_bytes = *LoaderRun::memory_needed(options);
    const auto loader = start_loader(options);
    std::atomic<bool> waits = false;
    std::jthread caller([&] {
      std::vector<Batch> held;  // until the memory is used up, and next() waits
      for (;;) {
        NextBatch next = loader->next();
        if (next.kind != Kind::batch) {
          EXPECT_EQ(next.kind, Kind::stopped);
          return;
        }
        held.push_back(std::move(next.batch));
        waits = held.size() > 1;
      }
    });
    while (!waits) std::this_thread::yield();
    loader->stop();
    loader->stop();
    caller.join();
    EXPECT_EQ(loader->next().kind, Kind::stopped);
  }
}

TEST(LoaderRunTest, it_may_be_destroyed_at_any_moment) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(4);
  options.end_epoch = std::nullopt;
  for (int batches = 0; batches < 60; ++batches) {
    options.threads = 1 + static_cast<std::size_t>(batches) % 4;
    options.depth = 1 + static_cast<std::size_t>(batches) % 7;
    const auto loader = start_loader(options);
    for (int i = 0; i < batches % 13; ++i) ASSERT_EQ(loader->next().kind, Kind::batch);
    for (int i = 0; i < batches * 20; ++i) static_cast<void>(loader->stats());  // some time passes
  }
}

TEST(LoaderRunTest, batches_outlive_the_loader) {
  const LoaderData data(60);
  auto loader = start_loader(data.options(10));
  NextBatch first = loader->next();
  NextBatch second = loader->next();
  const std::string text = written_down(second.batch);
  loader.reset();
  EXPECT_EQ(written_down(second.batch), text);
  first.batch = std::move(second.batch);
  EXPECT_EQ(written_down(first.batch), text);
  first.batch.release();
  EXPECT_FALSE(first.batch);
}

TEST(LoaderRunTest, several_threads_may_ask) {
  const LoaderData data(100);
  LoaderRunOptions options = data.options(2);
  options.end_epoch = 20;
  const auto loader = start_loader(options);
  std::vector<std::atomic<int>> seen(*loader->batch_count());
  {
    std::vector<std::jthread> callers;
    for (int i = 0; i < 3; ++i)
      callers.emplace_back([&] {
        for (;;) {
          const NextBatch next = loader->next();
          if (next.kind != Kind::batch) return;
          ++seen[next.batch.number()];
        }
      });
  }
  for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
}

TEST(LoaderRunTest, a_forked_child_is_refused_and_leaves_in_peace) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(4);
  options.end_epoch = std::nullopt;
  for (int round = 0; round < 10; ++round) {
    auto loader = start_loader(options);
    NextBatch held = loader->next();
    const ChildEnd end = in_child([&] {
      const NextBatch next = loader->next();
      if (next.kind != Kind::failed || next.status.code() != Code::unsupported) return 1;
      if (next.status.message().find("fork") == std::string_view::npos) return 2;
      if (loader->stats().batches != 0) return 3;
      loader->stop();
      held.batch.release();
      loader.reset();  // with threads that do not exist here
      SampleRecord record;
      return data.dataset()->read(5, record).ok() ? 0 : 4;  // datasets work in children
    });
    EXPECT_EQ(end.signal, 0);
    EXPECT_EQ(end.exit_code, 0);
    EXPECT_EQ(loader->next().kind, Kind::batch);  // the parent continues
  }
}

TEST(LoaderRunTest, a_hundred_epochs_leak_nothing) {
  const LoaderData data(40);
  const std::size_t fds_before = open_fd_count();
  for (int run = 0; run < 2; ++run) {
    LoaderRunOptions options = data.options(8);
    options.end_epoch = 100;
    auto loader = start_loader(options);
    std::size_t fds_early = 0;
    std::uint64_t count = 0;
    for (;; ++count) {
      NextBatch next = loader->next();
      if (next.kind == Kind::end) break;
      ASSERT_EQ(next.kind, Kind::batch) << next.status.message();
      if (count == 50) fds_early = open_fd_count();
    }
    EXPECT_EQ(count, 500U);
    EXPECT_EQ(open_fd_count(), fds_early);
    EXPECT_EQ(loader->stats().leased_bytes, 0U);
    loader.reset();
    // The dataset keeps its shards open; the second run finds them so.
    if (run == 1) {
      EXPECT_EQ(open_fd_count(), fds_before + 2 * data.paths().size());
    }
  }
}

TEST(LoaderRunTest, its_counters_add_up) {
  const LoaderData data(60);
  LoaderRunOptions options = data.options(10);
  options.end_epoch = 3;
  const auto loader = start_loader(options);
  while (loader->next().kind == Kind::batch) {
  }
  const LoaderStats stats = loader->stats();
  EXPECT_EQ(stats.batches, 18U);
  EXPECT_EQ(stats.samples, 180U);
  EXPECT_EQ(stats.unchecked, 0U);
  EXPECT_EQ(stats.wait.count(), 18U);
  EXPECT_EQ(stats.fetch.record_count, 180U);
  EXPECT_EQ(stats.fetch.record_bytes, stats.bytes);
  nanoseconds sum{0};
  for (const nanoseconds part : stats.waited_in) sum += part;
  EXPECT_EQ(sum, stats.waited);
  EXPECT_GE(stats.elapsed, stats.waited);
  EXPECT_GT(stats.stall_share(), 0);
  EXPECT_LE(stats.stall_share(), 1);
}

TEST(LoaderRunTest, unchecked_samples_are_counted) {
  const LoaderData data(20, 10, 0, false);
  const auto loader = start_loader(data.options(10));
  while (loader->next().kind == Kind::batch) {
  }
  EXPECT_EQ(loader->stats().unchecked, 20U);
}

}  // namespace
}  // namespace stoker::testing
