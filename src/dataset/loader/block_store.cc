#include "dataset/loader/block_store.h"

#include <algorithm>
#include <utility>

namespace stoker::internal {
namespace {

/// Number of blocks to skip after one that was found in the page cache.
constexpr std::uint64_t kRestLoads = 64;
/// The first window of a run is read during the first 1/kCatchUp of it: soon enough to be useful,
/// and slowly enough that the first batches do not wait for all of it.
constexpr std::uint64_t kCatchUp = 8;

/// `count` * `done` / `size`, at most `count`.
std::uint64_t share_of(std::uint64_t count, std::uint64_t done, std::uint64_t size) {
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>(Wide{std::min(done, size)} * count / size);
}

}  // namespace

BlockStore::BlockStore(const SampleOrder& order, BufferPool pool,
                       std::optional<std::uint64_t> end_epoch)
    : order_(order),
      shape_(*order.lane_shape()),
      end_epoch_(end_epoch),
      pool_(std::move(pool)),
      lanes_(shape_.lanes) {}

void BlockStore::find(std::span<const SampleRef> samples,
                      std::vector<std::shared_ptr<const Block>>& out) const {
  out.assign(samples.size(), nullptr);
  MutexLock lock(mutex_);
  if (entries_.empty()) return;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    auto after = entries_.upper_bound(samples[i].sample);
    if (after == entries_.begin()) continue;
    const auto& [first, entry] = *--after;
    if (samples[i].sample - first < entry.block->records.size()) out[i] = entry.block;
  }
}

BlockStore::Stretch BlockStore::place_of(std::uint64_t position) const noexcept {
  const std::uint64_t lane_deal = shape_.deal_samples / shape_.lanes;
  const std::uint64_t slot = position % shape_.deal_samples;
  const std::uint64_t index = position / shape_.deal_samples * lane_deal + slot % lane_deal;
  return {.lane = slot / lane_deal, .begin = index, .end = index + 1};
}

std::uint64_t BlockStore::window_samples(std::uint64_t window) const noexcept {
  const std::uint64_t first = window * shape_.window_blocks;
  return std::min(shape_.window_blocks, shape_.blocks_per_lane - first) * shape_.block_samples;
}

void BlockStore::advance(std::uint64_t epoch, std::span<const std::uint64_t> positions,
                         std::vector<Load>& out) {
  out.clear();
  Dropped dropped;  // their memory is released after the lock
  MutexLock lock(mutex_);
  for (std::size_t i = 0; i < positions.size();) {
    if (positions[i] >= shape_.lane_positions) {
      ++i;
      continue;
    }
    Stretch stretch = place_of(positions[i]);
    for (++i; i < positions.size() && positions[i] < shape_.lane_positions; ++i) {
      const Stretch next = place_of(positions[i]);
      if (next.lane != stretch.lane || next.begin != stretch.end) break;
      stretch.end = next.end;
    }
    advance_stretch(epoch, stretch, out, dropped);
  }
}

void BlockStore::enter_window(Lane& lane, std::uint64_t number, std::uint64_t epoch,
                              std::uint64_t window, Dropped& dropped) {
  lane.is_begun = true;
  lane.epoch = epoch;
  lane.window = window;
  lane.first = {};
  const bool is_last = (window + 1) * shape_.window_blocks >= shape_.blocks_per_lane;
  lane.next = {.epoch = is_last ? epoch + 1 : epoch, .window = is_last ? 0 : window + 1};
  if (!end_epoch_ || lane.next.epoch < *end_epoch_)
    lane.next.ranges = order_.window_ranges(lane.next.epoch, number, lane.next.window);
  for (auto at = entries_.begin(); at != entries_.end();) {
    Entry& entry = at->second;
    if (entry.lane == number && std::pair(entry.epoch, entry.window) < std::pair(epoch, window)) {
      dropped.push_back(std::move(entry.block));
      at = entries_.erase(at);
    } else {
      ++at;
    }
  }
}

void BlockStore::advance_stretch(std::uint64_t epoch, const Stretch& stretch,
                                 std::vector<Load>& out, Dropped& dropped) {
  Lane& lane = lanes_[stretch.lane];
  const std::uint64_t in_window = shape_.window_blocks * shape_.block_samples;
  const std::uint64_t window = stretch.begin / in_window;
  const std::pair now(epoch, window);
  const std::pair was(lane.epoch, lane.window);
  if (lane.is_begun && now < was) return;  // a batch that another thread has overtaken
  const std::uint64_t size = window_samples(window);
  const std::uint64_t before = stretch.begin - window * in_window;
  if (!lane.is_begun) {
    enter_window(lane, stretch.lane, epoch, window, dropped);
    lane.began = before;
    if (before <= size / 2)
      lane.first = {.epoch = epoch,
                    .window = window,
                    .ranges = order_.window_ranges(epoch, stretch.lane, window)};
  } else if (now > was) {
    enter_window(lane, stretch.lane, epoch, window, dropped);
  }
  const std::uint64_t done = std::min(stretch.end - window * in_window, size);
  // Batches may be started out of order.
  const std::uint64_t come = done - std::min(done, lane.began);
  say(lane.first, stretch.lane, share_of(lane.first.ranges.size(), come, size / kCatchUp + 1), out);
  // The next window is read at the same rate as this one is used.
  say(lane.next, stretch.lane, share_of(lane.next.ranges.size(), done, size), out);
}

void BlockStore::say(Reading& reading, std::uint64_t lane, std::uint64_t due,
                     std::vector<Load>& out) {
  for (; reading.said < due; ++reading.said)
    out.push_back({.range = reading.ranges[reading.said],
                   .lane = lane,
                   .epoch = reading.epoch,
                   .window = reading.window});
}

bool BlockStore::rests_because_warm() {
  MutexLock lock(mutex_);
  if (rest_loads_ == 0) return false;
  --rest_loads_;
  return true;
}

Status BlockStore::load(const Load& load, RecordFetcher& fetcher, const std::stop_token& stop) {
  if (load.range.count == 0 || rests_because_warm()) return {};
  std::vector<SampleRef> samples(load.range.count);
  for (std::uint64_t i = 0; i < load.range.count; ++i) samples[i].sample = load.range.first + i;
  FetchPlan plan;
  STOKER_TRY(fetcher.plan(samples, plan));
  if (plan.memory_bytes == 0 || plan.memory_bytes > pool_.budget_bytes()) return {};
  Result<Lease> memory = pool_.try_lease(plan.memory_bytes);
  if (!memory.ok()) return {};
  auto block = std::make_shared<Block>();
  block->memory = *std::move(memory);
  block->first = load.range.first;
  block->records.resize(samples.size());
  const FetchCounters before = fetcher.counters();
  STOKER_TRY(fetcher.read(plan, block->memory.bytes(), block->records, stop));
  const FetchCounters after = fetcher.counters();
  const bool was_warm = after.page_cache_bytes - before.page_cache_bytes >
                        (after.record_bytes - before.record_bytes) / 2;
  loaded_.add();
  std::shared_ptr<const Block> replaced;  // its memory is released after the lock
  MutexLock lock(mutex_);
  if (was_warm) rest_loads_ = kRestLoads;
  const Lane& lane = lanes_[load.lane];
  if (std::pair(load.epoch, load.window) < std::pair(lane.epoch, lane.window)) {
    replaced = std::move(block);  // too late
    return {};
  }
  Entry& entry = entries_[load.range.first];
  replaced = std::exchange(entry.block, std::move(block));
  entry.lane = load.lane;
  entry.epoch = load.epoch;
  entry.window = load.window;
  return {};
}

}  // namespace stoker::internal
