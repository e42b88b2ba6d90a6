// Which chunks stay: the policy, without files, on real orders.
#include <cstdio>
#include <limits>
#include <list>
#include <map>
#include <set>

#include "dataset/order/mixture.h"
#include "dataset/order/order.h"
#include "dataset/shard_cache/cache_support.h"
#include "dataset/shard_cache/chunk_table.h"
#include "dataset/shard_cache/order_forecast.h"

namespace stoker::testing {
namespace {

constexpr std::uint32_t kChunkSize = 1000;

/// Chunks of equally many samples: chunk i of dataset d is at i * kChunkSize of object d.
class EvenChunks final : public ChunkSamples {
 public:
  EvenChunks(std::uint64_t object, std::uint64_t samples, std::uint64_t per_chunk)
      : object_(object), samples_(samples), per_chunk_(per_chunk) {}

  ChunkId chunk_of(std::uint64_t sample) const {
    return {.object = {.low = object_, .high = 0},
            .offset_bytes = sample / per_chunk_ * kChunkSize,
            .size_bytes = kChunkSize};
  }
  std::optional<SampleRange> samples_of(const ChunkId& id) const override {
    if (id.object.low != object_) return std::nullopt;
    const std::uint64_t first = id.offset_bytes / kChunkSize * per_chunk_;
    return SampleRange{.first = first, .count = std::min(per_chunk_, samples_ - first)};
  }

 private:
  const std::uint64_t object_;
  const std::uint64_t samples_;
  const std::uint64_t per_chunk_;
};

OrderPlace place_of(const SampleOrder& order, std::uint64_t batch, std::uint64_t rank = 0,
                    std::uint64_t world_size = 1) {
  OrderPlace place;
  place.cursor.order.sample_count = order.epoch_samples();
  place.cursor.global_batch_size = batch;
  place.rank = rank;
  place.world_size = world_size;
  return place;
}

/// A machine that reads its ranks' samples of an order, through a cache of so many chunks.
struct Machine {
  std::shared_ptr<const SampleOrder> order;
  std::vector<std::shared_ptr<const EvenChunks>> datasets;
  std::uint64_t batch = 1;  // G
  std::uint64_t rank = 0;
  std::uint64_t world_size = 1;
  std::uint64_t epochs = 3;

  ChunkId chunk_at(std::uint64_t epoch, std::uint64_t position) const {
    const SampleRef sample = order->at(epoch, position);
    return datasets[sample.dataset]->chunk_of(sample.sample);
  }
  bool is_mine(std::uint64_t position) const {
    return position % batch / (batch / world_size) == rank;
  }
  /// The chunks in the order in which they are read, with those of one epoch more.
  std::vector<ChunkId> trace() const {
    std::vector<ChunkId> chunks;
    for (std::uint64_t epoch = 0; epoch <= epochs; ++epoch)
      for (std::uint64_t position = 0; position < order->epoch_samples(); ++position)
        if (is_mine(position)) chunks.push_back(chunk_at(epoch, position));
    return chunks;
  }
  std::size_t counted(const std::vector<ChunkId>& trace) const {
    return trace.size() / (epochs + 1) * epochs;
  }

  /// Misses of the policy as it is.
  std::uint64_t misses(std::size_t capacity) const {
    OrderForecast forecast;
    ChunkTable table(forecast);
    AnnouncedOrder announced{
        .place = place_of(*order, batch, rank, world_size), .order = order, .datasets = {}};
    for (const auto& dataset : datasets) announced.datasets.emplace_back(dataset);
    const auto progress = forecast.announce(std::move(announced));
    std::uint64_t missed = 0;
    for (std::uint64_t epoch = 0; epoch < epochs; ++epoch)
      for (std::uint64_t position = 0; position < order->epoch_samples(); ++position) {
        if (!is_mine(position)) continue;
        const ChunkId chunk = chunk_at(epoch, position);
        progress->received(epoch, position);
        progress->began(epoch, position + 1);
        if (table.touch(chunk)) continue;
        ++missed;
        if (table.size() == capacity) {
          const auto worst = table.worst();
          if (worst->at <= table.due_after_reads(chunk)) continue;
          table.erase(worst->id);
        }
        table.put(chunk, forecast.now());
      }
    return missed;
  }

  /// Misses of Belady's MIN with bypass, which knows the future.
  std::uint64_t misses_of_min(std::size_t capacity) const {
    const std::vector<ChunkId> chunks = trace();
    std::vector<std::size_t> next(chunks.size(), std::numeric_limits<std::size_t>::max());
    std::map<ChunkId, std::size_t> seen;
    for (std::size_t i = chunks.size(); i-- > 0;) {
      if (const auto found = seen.find(chunks[i]); found != seen.end()) next[i] = found->second;
      seen[chunks[i]] = i;
    }
    std::set<std::pair<std::size_t, ChunkId>> by_use;
    std::map<ChunkId, std::size_t> cached;
    std::uint64_t missed = 0;
    for (std::size_t i = 0; i < counted(chunks); ++i) {
      if (const auto found = cached.find(chunks[i]); found != cached.end()) {
        by_use.erase({found->second, chunks[i]});
        found->second = next[i];
        by_use.emplace(next[i], chunks[i]);
        continue;
      }
      ++missed;
      if (cached.size() == capacity) {
        const auto worst = std::prev(by_use.end());
        if (worst->first <= next[i]) continue;
        cached.erase(worst->second);
        by_use.erase(worst);
      }
      cached.emplace(chunks[i], next[i]);
      by_use.emplace(next[i], chunks[i]);
    }
    return missed;
  }

  std::uint64_t misses_of_lru(std::size_t capacity) const {
    const std::vector<ChunkId> chunks = trace();
    std::list<ChunkId> used;
    std::map<ChunkId, std::list<ChunkId>::iterator> cached;
    std::uint64_t missed = 0;
    for (std::size_t i = 0; i < counted(chunks); ++i) {
      if (const auto found = cached.find(chunks[i]); found != cached.end()) {
        used.splice(used.begin(), used, found->second);
        continue;
      }
      ++missed;
      if (cached.size() == capacity) {
        cached.erase(used.back());
        used.pop_back();
      }
      used.push_front(chunks[i]);
      cached.emplace(chunks[i], used.begin());
    }
    return missed;
  }
};

std::shared_ptr<const SampleOrder> order_of(Shuffle shuffle, std::uint64_t samples,
                                            std::uint64_t block = 0, std::uint64_t lanes = 0,
                                            std::uint64_t deal = 0) {
  OrderOptions options{.shuffle = shuffle, .seed = 7, .sample_count = samples};
  if (shuffle == Shuffle::block) {
    options.block_samples = block;
    options.window_blocks = 2;
    options.lanes = lanes;
    options.deal_samples = deal;
  }
  auto order = make_order(*resolve_order(options));
  EXPECT_TRUE(order.ok()) << order.status().message();
  return *std::move(order);
}

struct PolicyCase {
  const char* name;
  Machine machine;
  std::size_t capacity;
};

std::vector<PolicyCase> policy_cases() {
  constexpr std::uint64_t kSamples = 6000;
  const auto whole = std::make_shared<EvenChunks>(1, kSamples, 1);
  const auto tens = std::make_shared<EvenChunks>(1, kSamples, 10);
  const auto blocks = std::make_shared<EvenChunks>(1, kSamples, 50);
  const auto second = std::make_shared<EvenChunks>(2, 3000, 1);
  const MixtureOptions mixture{
      .order = {.shuffle = Shuffle::global, .seed = 3, .sample_count = 4000},
      .parts = {{kSamples, 0.4}, {3000, 0.6}}};
  const std::shared_ptr<const SampleOrder> mixed = *make_mixture_order(mixture);
  const auto global = order_of(Shuffle::global, kSamples);
  const auto block = order_of(Shuffle::block, kSamples, 100, 4, 20);
  return {
      {"global, a chunk for each sample, a cache of half", {global, {whole}}, 3000},
      {"global, a chunk for each sample, a cache of a tenth", {global, {whole}}, 600},
      {"global, ten samples in a chunk", {global, {tens}}, 300},
      {"stored order", {order_of(Shuffle::off, kSamples), {tens}}, 200},
      {"block", {block, {blocks}, 20}, 60},
      {"a mixture of two", {mixed, {whole, second}}, 2000},
      {"one rank of four", {global, {whole}, 8, 1, 4, 6}, 700},
  };
}

TEST(EvictionTest, misses_are_those_of_min_with_bypass_and_fewer_than_those_of_lru) {
  for (const PolicyCase& each : policy_cases()) {
    const std::uint64_t ours = each.machine.misses(each.capacity);
    const std::uint64_t least = each.machine.misses_of_min(each.capacity);
    const std::uint64_t lru = each.machine.misses_of_lru(each.capacity);
    EXPECT_GE(ours, least) << each.name;
    EXPECT_LE(static_cast<double>(ours), 1.01 * static_cast<double>(least)) << each.name;
    EXPECT_LT(ours, lru) << each.name;
    std::printf("%-55s misses %6lu, MIN %6lu, LRU %6lu\n", each.name, ours, least, lru);
  }
}

TEST(EvictionTest, without_an_order_the_chunk_that_was_used_least_recently_goes) {
  OrderForecast forecast;
  ChunkTable table(forecast);
  const EvenChunks chunks(1, 10, 1);
  for (std::uint64_t i = 0; i < 3; ++i) table.put(chunks.chunk_of(i), forecast.now());
  table.touch(chunks.chunk_of(0));
  EXPECT_EQ(table.worst()->id, chunks.chunk_of(1));
  table.erase(chunks.chunk_of(1));
  EXPECT_EQ(table.worst()->id, chunks.chunk_of(2));
  table.put(chunks.chunk_of(3), forecast.now() - 100);
  EXPECT_EQ(table.worst()->id, chunks.chunk_of(3));
  EXPECT_GT(table.worst()->at, forecast.now() + 99);
}

TEST(EvictionTest, an_order_that_is_gone_no_longer_counts) {
  OrderForecast forecast;
  const auto order = order_of(Shuffle::off, 100);
  auto chunks = std::make_shared<EvenChunks>(1, 100, 1);
  const ChunkId chunk = chunks->chunk_of(50);
  forecast.announce({.place = place_of(*order, 1), .order = order, .datasets = {chunks}});
  EXPECT_NEAR(*forecast.next_use(chunk) - forecast.now(), 0.05, 1e-9);
  EXPECT_FALSE(forecast.next_use({.object = {.low = 9}, .offset_bytes = 0, .size_bytes = 1}));
  chunks.reset();
  EXPECT_FALSE(forecast.next_use(chunk));
}

TEST(EvictionTest, ranks_and_other_orders_of_other_processes_count_too) {
  const TempDir dir;
  constexpr std::uint64_t kSamples = 1000;
  const auto order = order_of(Shuffle::global, kSamples);
  const auto chunks = std::make_shared<EvenChunks>(1, kSamples, 1);
  OrderForecast mine;
  mine.announce({.place = place_of(*order, 4, 0, 4), .order = order, .datasets = {chunks}});
  const auto chunk_at = [&](const SampleOrder& of, std::uint64_t position) {
    return chunks->chunk_of(of.at(0, position).sample);
  };
  // Position 1 is rank 1's: this process needs its sample in a later epoch, or never.
  EXPECT_GT(*mine.next_use(chunk_at(*order, 1)), mine.now() + 0.5);
  OrderForecast sister;  // as if of another process
  sister.announce({.place = place_of(*order, 4, 1, 4), .order = order, .datasets = {chunks}});
  sister.exchange(posix_file_ops(), dir.path());
  mine.exchange(posix_file_ops(), dir.path());
  EXPECT_NEAR(*mine.next_use(chunk_at(*order, 1)) - mine.now(), 0.001, 1e-9);

  // Another job with the same data: its next sample is needed now, though ours is far away.
  OrderPlace place = place_of(*order, 1);
  place.cursor.order =
      *resolve_order({.shuffle = Shuffle::global, .seed = 8, .sample_count = kSamples});
  const std::shared_ptr<const SampleOrder> theirs = *make_order(place.cursor.order);
  const ChunkId needed = chunk_at(*theirs, 0);
  OrderForecast again;
  again.announce({.place = place_of(*order, 4, 0, 4), .order = order, .datasets = {chunks}});
  EXPECT_GT(*again.next_use(needed), again.now());
  OrderForecast job;
  job.announce({.place = place, .order = theirs, .datasets = {chunks}});
  job.exchange(posix_file_ops(), dir.path());
  again.exchange(posix_file_ops(), dir.path());
  EXPECT_NEAR(*again.next_use(needed) - again.now(), 0, 1e-9);
}

TEST(EvictionTest, an_order_that_cannot_be_computed_leaves_chunks_to_their_last_use) {
  OrderForecast forecast;
  const auto order = order_of(Shuffle::resampled, 100);
  const auto chunks = std::make_shared<EvenChunks>(1, 100, 1);
  forecast.announce({.place = place_of(*order, 1), .order = order, .datasets = {chunks}});
  EXPECT_FALSE(forecast.next_use(chunks->chunk_of(5)));
}

/// What an epoch reads from the source, over all nodes, in datasets: of the second epoch on, with
/// caches of a quarter of the dataset's part of each node.
double datasets_read(const std::shared_ptr<const SampleOrder>& order, std::uint64_t samples,
                     std::uint64_t per_chunk, std::uint64_t nodes, std::uint64_t batch) {
  const auto chunks = std::make_shared<EvenChunks>(1, samples, per_chunk);
  const std::uint64_t chunk_count = samples / per_chunk;
  constexpr std::uint64_t kEpochs = 2;
  const std::uint64_t capacity = std::max<std::uint64_t>(chunk_count / nodes / 4, 4);
  // The first node stands for all: the deal is as random for it as for the others.
  const Machine node{.order = order,
                     .datasets = {chunks},
                     .batch = batch,
                     .rank = 0,
                     .world_size = nodes,
                     .epochs = kEpochs};
  const double per_epoch = static_cast<double>(node.misses(capacity)) / kEpochs;
  return per_epoch * static_cast<double>(nodes) / static_cast<double>(chunk_count);
}

TEST(EvictionTest, nodes_that_read_blocks_of_their_own_read_the_dataset_about_once_an_epoch) {
  constexpr std::uint64_t kSamples = 128 * 1024;
  constexpr std::uint64_t kPerChunk = 8;
  constexpr std::uint64_t kBatch = 1024;
  std::puts("what an epoch reads from the source over all nodes, in datasets:");
  std::puts("nodes   global, chunks   global, records   node-affine blocks");
  for (const std::uint64_t nodes : {4, 16, 64}) {
    const auto global = order_of(Shuffle::global, kSamples);
    // A block is a group of chunks, as shards are. The ring of samples is cut anywhere, so that
    // each block has one chunk that it shares with the next.
    const auto affine = order_of(Shuffle::block, kSamples, 16 * kPerChunk, 64, kBatch);
    const double chunks = datasets_read(global, kSamples, kPerChunk, nodes, kBatch);
    const double records = datasets_read(global, kSamples, 1, nodes, kBatch);
    const double blocks = datasets_read(affine, kSamples, kPerChunk, nodes, kBatch);
    std::printf("%5lu %16.1f %17.1f %20.1f\n", nodes, chunks, records, blocks);
    EXPECT_GT(chunks, 5.0) << nodes;
    EXPECT_LE(records, 1.0) << nodes;
    EXPECT_LE(blocks, 1.15) << nodes;
  }
}

}  // namespace
}  // namespace stoker::testing
