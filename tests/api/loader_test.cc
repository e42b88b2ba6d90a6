#include "stoker/loader.h"

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <array>
#include <set>
#include <thread>

#include "api/shards.h"

namespace stoker {
namespace {

using testing::Folder;
using testing::image_fields;
using testing::key_of;
using testing::labels_of;
using testing::must;
using testing::numbers_of;
using testing::write_tars;
using Labels = std::vector<std::vector<std::int64_t>>;

constexpr std::size_t kSamples = 100;

class LoaderTest : public ::testing::Test {
 protected:
  LoaderTest() { write_tars(folder_, kSamples); }

  LoaderOptions options(std::uint64_t global_batch_size = 8) const {
    return {.data = {folder_.path()},
            .global_batch_size = global_batch_size,
            .seed = 7,
            .fields = image_fields()};
  }

  /// Batches of half a megabyte, in the least memory: only a few can be held.
  LoaderOptions tight() const {
    testing::Members members;
    for (std::size_t i = 0; i < 24; ++i) {
      members.emplace_back(key_of(i) + ".jpg", std::string(std::size_t{512} << 10, 'x'));
      members.emplace_back(key_of(i) + ".cls", std::to_string(i));
    }
    const std::string path = folder_.file("large.tar");
    testing::write_file(path, testing::tar_of(members));
    LoaderOptions wanted = options(1);
    wanted.data = {path};
    wanted.epochs = std::nullopt;
    wanted.depth = 1;
    wanted.memory_bytes = must(Loader::open(wanted)).memory_needed();
    return wanted;
  }

  Folder folder_;
};

TEST_F(LoaderTest, batches_through_a_cache_are_the_same_and_the_source_is_read_once) {
  constexpr std::uint64_t kCacheBytes = 64 << 20;
  const Folder other;
  Loader plain = must(Loader::open(options()));
  const Labels expected = labels_of(plain);
  const Cache cache = must(Cache::open(other.file("cache"), kCacheBytes));
  LoaderOptions wanted = options();
  wanted.cache = cache;
  Loader loader = must(Loader::open(wanted));
  EXPECT_EQ(plain.cache_forecast(), "");
  EXPECT_NE(loader.cache_forecast().find("this machine reads about"), std::string::npos)
      << loader.cache_forecast();
  EXPECT_EQ(labels_of(loader), expected);
  const std::uint64_t fetched = cache.stats().fetched_bytes;
  EXPECT_GT(fetched, 0U);
  const Dataset dataset =
      must(Dataset::open(DatasetOptions{.source = {folder_.path()}, .cache = cache}));
  EXPECT_EQ(must(dataset.read(3)).key(), key_of(3));
  EXPECT_EQ(cache.stats().fetched_bytes, fetched);
  EXPECT_GT(cache.stats().hits, 0U);
  EXPECT_TRUE(cache.trouble().ok()) << cache.trouble().message();
  EXPECT_EQ(cache.directory(), other.file("cache"));
  EXPECT_EQ(cache.size_bytes(), kCacheBytes);
  EXPECT_EQ(Cache::open(folder_.path(), kCacheBytes).status().code(), Code::invalid_argument);
}

TEST_F(LoaderTest, an_iteration_is_an_epoch) {
  Loader loader = must(Loader::open(options()));
  EXPECT_EQ(loader.size(), 12U);
  EXPECT_EQ(loader.batches_per_epoch(), 12U);
  EXPECT_EQ(loader.step(), 0U);
  std::set<std::int64_t> seen;
  std::uint64_t steps = 0;
  while (const std::optional<Batch> batch = must(loader.next())) {
    EXPECT_EQ(loader.step(), ++steps);
    EXPECT_EQ(batch->size(), 8U);
    EXPECT_TRUE(batch->last());
    const std::vector<std::int64_t> labels = numbers_of(*batch);
    for (std::size_t i = 0; i < labels.size(); ++i) {
      EXPECT_EQ(batch->key(i), key_of(static_cast<std::size_t>(labels[i])));
      EXPECT_EQ(batch->find("jpg")->text(i).size(), 10U + static_cast<std::size_t>(labels[i]) % 31);
    }
    seen.insert(labels.begin(), labels.end());
    EXPECT_EQ(loader.cursor(), batch->cursor());
    EXPECT_EQ(loader.epoch_is_done(), steps == 12);
  }
  EXPECT_EQ(steps, 12U);
  EXPECT_EQ(seen.size(), 96U);  // shuffled: the rest is dropped
  const Labels second = labels_of(loader);
  EXPECT_EQ(second.size(), 12U);
  EXPECT_EQ(loader.step(), 24U);
  EXPECT_EQ(loader.cursor().epoch, 1U);
}

TEST_F(LoaderTest, a_column_is_checked) {
  Loader loader = must(Loader::open(options()));
  const std::optional<Batch> batch = must(loader.next());
  EXPECT_EQ(batch->values<std::int64_t>("label").status().code(), Code::not_found);
  EXPECT_NE(batch->values<std::int64_t>("label").status().message().find("cls"),
            std::string_view::npos);
  EXPECT_EQ(batch->values<float>("cls").status().code(), Code::invalid_argument);
  EXPECT_EQ(batch->values<std::byte>("jpg").status().code(), Code::invalid_argument);
  EXPECT_EQ(batch->find("label"), nullptr);
}

TEST_F(LoaderTest, it_resumes_after_every_batch) {
  Loader whole = must(Loader::open(options()));
  std::vector<std::string> states = {must(whole.state())};
  Labels all;
  for (int epoch = 0; epoch < 2; ++epoch)
    while (const std::optional<Batch> batch = must(whole.next())) {
      all.push_back(numbers_of(*batch));
      states.push_back(must(whole.state()));
    }
  ASSERT_EQ(all.size(), 24U);
  Loader resumed = must(Loader::open(options()));
  for (const std::size_t at : {0U, 5U, 11U, 12U, 13U, 23U}) {
    SCOPED_TRACE(at);
    const Status status = resumed.resume(states[at]);
    ASSERT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(resumed.step(), at);
    EXPECT_EQ(must(resumed.state()), states[at]);
    const std::size_t end = at < 12 ? 12 : 24;  // of its epoch
    EXPECT_EQ(labels_of(resumed), Labels(all.begin() + static_cast<std::ptrdiff_t>(at),
                                         all.begin() + static_cast<std::ptrdiff_t>(end)));
    EXPECT_EQ(resumed.step(), end);
  }
}

TEST_F(LoaderTest, a_cursor_of_another_run_is_refused) {
  Loader loader = must(Loader::open(options()));
  must(loader.next());
  LoaderOptions other = options();
  other.seed = 8;
  Loader seeded = must(Loader::open(other));
  const Status status = seeded.resume(loader.cursor());
  EXPECT_EQ(status.code(), Code::invalid_argument);
  EXPECT_NE(status.message().find("seed"), std::string_view::npos) << status.message();
  EXPECT_EQ(seeded.check(loader.cursor()).code(), Code::invalid_argument);
  EXPECT_EQ(seeded.resume("{}").code(), Code::corrupt);

  Loader larger = must(Loader::open(options(16)));
  EXPECT_EQ(larger.resume(loader.cursor()).code(), Code::invalid_argument);
  const std::array<std::string_view, 1> allow = {"global_batch_size"};
  ASSERT_TRUE(larger.resume(loader.cursor(), allow).ok());
  larger.count_from(1);
  const std::optional<Batch> batch = must(larger.next());
  EXPECT_EQ(batch->positions().front(), 8U);
  EXPECT_EQ(larger.step(), 2U);
}

TEST_F(LoaderTest, ranks_divide_each_step) {
  Loader whole = must(Loader::open(options()));
  std::vector<Loader> ranks;
  for (const std::uint64_t rank : {0U, 1U}) {
    LoaderOptions mine = options();
    mine.ranks = {.rank = rank, .world_size = 2, .local_world_size = 2};
    ranks.push_back(must(Loader::open(mine)));
  }
  while (const std::optional<Batch> batch = must(whole.next())) {
    std::vector<std::int64_t> both;
    for (Loader& loader : ranks) {
      const std::vector<std::int64_t> part = numbers_of(*must(loader.next()));
      EXPECT_EQ(part.size(), 4U);
      both.insert(both.end(), part.begin(), part.end());
    }
    EXPECT_EQ(both, numbers_of(*batch));
    EXPECT_EQ(ranks[0].cursor(), whole.cursor());
    EXPECT_EQ(ranks[1].cursor(), whole.cursor());
  }
}

TEST_F(LoaderTest, steps_are_saved_whole) {
  LoaderOptions cut = options();
  cut.micro_batch_size = 2;
  Loader loader = must(Loader::open(cut));
  EXPECT_EQ(loader.micro_batches_per_step(), 4U);
  EXPECT_EQ(loader.batches_per_epoch(), 48U);
  EXPECT_EQ(loader.steps_per_epoch(), 12U);
  const std::string before = must(loader.state());
  for (std::uint64_t i = 0; i < 4; ++i) {
    EXPECT_TRUE(loader.state().ok() == (i == 0));
    const std::optional<Batch> batch = must(loader.next());
    EXPECT_EQ(batch->size(), 2U);
    EXPECT_EQ(batch->last(), i == 3);
    EXPECT_EQ(loader.step_is_done(), i == 3);
    EXPECT_EQ(loader.step(), 1U);
    if (i < 3) {
      EXPECT_EQ(format_cursor(loader.cursor()), before);
      EXPECT_EQ(loader.state().status().code(), Code::unavailable);
    }
  }
  Loader other = must(Loader::open(options()));  // not cut
  ASSERT_TRUE(other.resume(must(loader.state())).ok());
  EXPECT_EQ(other.step(), 1U);
}

TEST_F(LoaderTest, tails_are_those_of_the_options) {
  const auto last = [&](Tail tail) {
    LoaderOptions wanted = options(32);
    wanted.shuffle = Shuffle::off;
    wanted.tail = tail;
    Loader loader = must(Loader::open(wanted));
    std::optional<Batch> found;
    while (std::optional<Batch> batch = must(loader.next())) found = std::move(batch);
    return std::make_pair(found->size(), found->valid().back());
  };
  EXPECT_EQ(last(Tail::drop), std::make_pair(std::size_t{32}, std::uint8_t{1}));
  EXPECT_EQ(last(Tail::keep), std::make_pair(std::size_t{4}, std::uint8_t{1}));
  EXPECT_EQ(last(Tail::wrap), std::make_pair(std::size_t{32}, std::uint8_t{1}));
  EXPECT_EQ(last(Tail::pad), std::make_pair(std::size_t{32}, std::uint8_t{0}));
}

TEST_F(LoaderTest, total_epochs_end_the_run) {
  LoaderOptions wanted = options(50);
  wanted.epochs = std::nullopt;
  wanted.total_epochs = 3;
  Loader loader = must(Loader::open(wanted));
  EXPECT_EQ(loader.size(), 6U);
  EXPECT_EQ(labels_of(loader).size(), 6U);
  EXPECT_TRUE(labels_of(loader).empty());
  EXPECT_TRUE(labels_of(loader).empty());

  wanted.epochs = 2;
  Loader twos = must(Loader::open(wanted));
  EXPECT_EQ(labels_of(twos).size(), 4U);
  EXPECT_EQ(labels_of(twos).size(), 2U);
  EXPECT_TRUE(labels_of(twos).empty());

  wanted.epochs = std::nullopt;
  wanted.total_epochs = std::nullopt;
  Loader endless = must(Loader::open(wanted));
  EXPECT_EQ(endless.size(), std::nullopt);
  EXPECT_EQ(labels_of(endless, 9).size(), 9U);
  EXPECT_EQ(endless.cursor().epoch, 4U);
}

TEST_F(LoaderTest, set_epoch_begins_an_epoch_or_stays_in_it) {
  Loader loader = must(Loader::open(options()));
  const Labels first = labels_of(loader);
  const Labels second = labels_of(loader);
  ASSERT_TRUE(loader.set_epoch(1).ok());
  EXPECT_EQ(labels_of(loader, 3), Labels(second.begin(), second.begin() + 3));
  ASSERT_TRUE(loader.set_epoch(1).ok());
  EXPECT_EQ(labels_of(loader), Labels(second.begin() + 3, second.end()));
  ASSERT_TRUE(loader.set_epoch(0).ok());
  EXPECT_EQ(labels_of(loader), first);
  ASSERT_TRUE(loader.set_epoch(1).ok());  // the next one in any case
  EXPECT_EQ(labels_of(loader), second);
}

TEST_F(LoaderTest, items_are_an_order) {
  LoaderOptions wanted = options(2);
  wanted.items = {{5, 3, 3, 99}};
  Loader loader = must(Loader::open(wanted));
  EXPECT_EQ(labels_of(loader), (Labels{{5, 3}, {3, 99}}));
  EXPECT_EQ(labels_of(loader), (Labels{{5, 3}, {3, 99}}));
  wanted.items = {{100}};
  EXPECT_EQ(Loader::open(wanted).status().code(), Code::invalid_argument);

  LoaderOptions each = options(2);
  each.items_of_epoch = [](std::uint64_t epoch) -> Result<std::vector<std::uint64_t>> {
    if (epoch == 3) throw std::runtime_error("no such epoch");
    return std::vector<std::uint64_t>{epoch, epoch + 1, epoch + 2, epoch + 3};
  };
  Loader epochs = must(Loader::open(each));
  EXPECT_EQ(labels_of(epochs), (Labels{{0, 1}, {2, 3}}));
  must(epochs.next());
  const std::string state = must(epochs.state());
  EXPECT_EQ(labels_of(epochs), (Labels{{3, 4}}));
  EXPECT_EQ(labels_of(epochs), (Labels{{2, 3}, {4, 5}}));
  EXPECT_EQ(epochs.next().status().code(), Code::invalid_argument);
  ASSERT_TRUE(epochs.resume(state).ok());
  EXPECT_EQ(labels_of(epochs), (Labels{{3, 4}}));
}

TEST_F(LoaderTest, data_may_be_a_dataset_or_a_path) {
  const Dataset dataset = must(Dataset::open(folder_.path()));
  const Dataset part = must(dataset.slice(10, 20));
  for (const LoaderData& data :
       {LoaderData(dataset), LoaderData(folder_.path()),
        LoaderData{folder_.file("shard-100.tar"), folder_.file("shard-101.tar")},
        LoaderData(part)}) {
    Loader loader = must(Loader::open(
        {.data = data, .batch_size = 5, .shuffle = Shuffle::off, .fields = image_fields()}));
    EXPECT_EQ(labels_of(loader, 1)[0].size(), 5U);
  }
  Loader loader = must(Loader::open({.data = part, .batch_size = 20, .fields = image_fields()}));
  std::vector<std::int64_t> labels = labels_of(loader)[0];
  std::ranges::sort(labels);
  EXPECT_EQ(labels.front(), 10);
  EXPECT_EQ(labels.back(), 29);
}

TEST_F(LoaderTest, options_that_cannot_work_are_refused) {
  const auto code = [](const LoaderOptions& options) {
    return Loader::open(options).status().code();
  };
  LoaderOptions wanted = options();
  wanted.batch_size = 8;
  EXPECT_EQ(code(wanted), Code::invalid_argument);
  wanted = options();
  wanted.fields = {{"jpeg", FieldKind::bytes}};
  EXPECT_EQ(code(wanted), Code::invalid_argument);
  EXPECT_NE(Loader::open(wanted).status().message().find("jpg"), std::string_view::npos);
  wanted = options();
  wanted.memory_bytes = 10;
  EXPECT_EQ(code(wanted), Code::invalid_argument);
  wanted = options();
  wanted.ranks = {.rank = 3, .world_size = 3};
  EXPECT_EQ(code(wanted), Code::invalid_argument);
  wanted = options();
  wanted.epochs = 0;
  EXPECT_EQ(code(wanted), Code::invalid_argument);
  wanted = options();
  wanted.threads = 100'000;
  EXPECT_EQ(code(wanted), Code::invalid_argument);
  wanted = options();
  wanted.data = {folder_.file("none")};
  EXPECT_EQ(code(wanted), Code::not_found);
}

TEST_F(LoaderTest, a_sample_that_cannot_be_read_fails_its_batch_or_is_replaced) {
  testing::Members members;
  for (std::size_t i = 0; i < 20; ++i)
    members.emplace_back(key_of(i) + ".cls", i == 13 ? "many" : std::to_string(i));
  const std::string path = folder_.file("words.tar");
  testing::write_file(path, testing::tar_of(members));
  LoaderOptions wanted{.data = {path},
                       .batch_size = 5,
                       .shuffle = Shuffle::off,
                       .fields = {{"cls", FieldKind::int64}}};
  Loader loader = must(Loader::open(wanted));
  EXPECT_EQ(labels_of(loader, 2).size(), 2U);
  for (int i = 0; i < 2; ++i) {
    const Status status = loader.next().status();
    EXPECT_EQ(status.code(), Code::invalid_argument);
    EXPECT_NE(status.message().find(key_of(13)), std::string_view::npos) << status.message();
  }
  EXPECT_EQ(loader.step(), 2U);
  ASSERT_TRUE(loader.set_epoch(1).ok());
  EXPECT_EQ(labels_of(loader, 1).size(), 1U);

  wanted.on_error = OnError::skip;
  Loader skipping = must(Loader::open(wanted));
  EXPECT_EQ(labels_of(skipping).size(), 4U);
  EXPECT_EQ(skipping.stats().replaced, 1U);
}

TEST_F(LoaderTest, batches_that_are_held_are_a_status) {
  LoaderOptions wanted = tight();
  wanted.held_warning = wanted.held_limit = std::chrono::nanoseconds(1);
  Loader loader = must(Loader::open(wanted));
  std::vector<Batch> held;
  Status status;
  while (status.ok()) {
    Result<std::optional<Batch>> next = loader.next();
    status = next.status();
    if (next.ok()) held.push_back(std::move(**next));
  }
  EXPECT_EQ(status.code(), Code::unavailable) << status.message();
  held.clear();
  Result<std::optional<Batch>> next = loader.next();
  while (!next.ok()) {  // the memory comes back when a thread has seen that it is free
    ASSERT_EQ(next.status().code(), Code::unavailable);
    next = loader.next();
  }
  EXPECT_TRUE(next->has_value());
}

TEST_F(LoaderTest, close_ends_a_wait) {
  Loader loader = must(Loader::open(tight()));
  std::vector<Batch> held;  // until the next batch has no memory
  Status status;
  std::thread waiter([&] {
    while (status.ok()) {
      Result<std::optional<Batch>> next = loader.next();
      status = next.status();
      if (next.ok()) held.push_back(std::move(**next));
    }
  });
  loader.close();
  waiter.join();
  EXPECT_EQ(status.code(), Code::cancelled);
  EXPECT_EQ(loader.next().status().code(), Code::cancelled);
  EXPECT_EQ(loader.set_epoch(0).code(), Code::cancelled);
  for (const Batch& batch : held) EXPECT_EQ(numbers_of(batch).size(), 1U);
  loader.close();
}

TEST_F(LoaderTest, a_forked_child_refuses) {
  Loader loader = must(Loader::open(options()));
  must(loader.next());
  const pid_t child = ::fork();
  if (child == 0) {
    const bool is_refused = loader.next().status().code() == Code::unsupported &&
                            loader.state().status().code() == Code::unsupported &&
                            loader.set_epoch(3).code() == Code::unsupported && loader.step() == 0;
    {
      const Loader ended = std::move(loader);
    }
    ::_exit(is_refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_EQ(labels_of(loader).size(), 11U);
}

TEST_F(LoaderTest, stats_count_a_run) {
  Loader loader = must(Loader::open(options()));
  EXPECT_EQ(loader.stats().batches, 0U);
  EXPECT_EQ(labels_of(loader).size(), 12U);
  EXPECT_EQ(loader.stats().batches, 12U);
  EXPECT_EQ(loader.stats().samples, 96U);
  EXPECT_GE(loader.stats().wait.count(), 12U);
  loader.close();
  EXPECT_EQ(loader.stats().batches, 12U);
}

TEST_F(LoaderTest, next_within_does_not_wait_longer) {
  Loader loader = must(Loader::open(tight()));
  std::vector<Batch> held;
  for (;;) {
    Result<std::optional<Batch>> next = loader.next_within(std::chrono::nanoseconds(1'000'000));
    if (next.ok()) {
      held.push_back(std::move(**next));
      continue;
    }
    EXPECT_EQ(next.status().code(), Code::unavailable);
    if (held.size() >= 3) break;  // the memory that there is at least
  }
  EXPECT_EQ(numbers_of(held.front()).size(), 1U);
}

TEST_F(LoaderTest, mixtures_have_their_shares) {
  const Folder other;
  write_tars(other, 50);
  const Dataset a = must(Dataset::open(folder_.path()));
  const Dataset b = must(Dataset::open(other.path()));
  const Mixture mixture = must(Mixture::make({{a, 3}, {b, 1}}, 4000));
  EXPECT_EQ(mixture.size(), 4000U);
  EXPECT_EQ(mixture.shares(), (std::vector<double>{0.75, 0.25}));
  EXPECT_EQ(mixture.parts().size(), 2U);
  std::size_t of_b = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) of_b += mixture.at(i).dataset;
  EXPECT_NEAR(static_cast<double>(of_b), 1000, 120);
  Loader loader =
      must(Loader::open({.data = mixture, .batch_size = 100, .seed = 1, .fields = image_fields()}));
  EXPECT_EQ(loader.size(), 40U);
  EXPECT_EQ(loader.cursor().fingerprint, mixture.fingerprint());
  std::size_t drawn_b = 0;
  while (const std::optional<Batch> batch = must(loader.next()))
    for (const SampleRef& ref : batch->samples()) drawn_b += ref.dataset;
  EXPECT_NEAR(static_cast<double>(drawn_b), 1000, 120);

  EXPECT_EQ(Mixture::make({}).status().code(), Code::invalid_argument);
  EXPECT_EQ(Mixture::make({{a, 1}, {b, -1}}).status().code(), Code::invalid_argument);
}

}  // namespace
}  // namespace stoker
