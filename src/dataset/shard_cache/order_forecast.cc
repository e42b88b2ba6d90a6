#include "dataset/shard_cache/order_forecast.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace stoker {
namespace {

/// Of an order whose speed is not known yet.
constexpr double kPositionsPerSecond = 1000;
constexpr nanoseconds kExchangeEvery{1'000'000'000};

bool is_computable(const SampleOrder& order) {
  return order.next_use(0, 0, order.at(0, 0)).has_value();
}

double seconds_since(Deadline then) {
  return std::chrono::duration<double>(Clock::now() - then).count();
}

}  // namespace

std::shared_ptr<OrderProgress> OrderForecast::announce(AnnouncedOrder order) {
  const Cursor& cursor = order.place.cursor;
  const std::uint64_t epoch_samples = order.order->epoch_samples();
  if (!is_computable(*order.order)) order.datasets.clear();  // it is about no chunk then
  std::shared_ptr<OrderProgress> progress(
      new OrderProgress(epoch_samples, cursor.epoch * epoch_samples + cursor.position));
  Line line{.announced = std::move(order),
            .id = {},
            .progress = progress,
            .began_at = Clock::now(),
            .ranks = {},
            .file = nullptr};
  line.id = line.announced.place.line();
  line.ranks.resize(line.announced.place.world_size);
  line.ranks[line.announced.place.rank] = true;
  std::vector<Line> dropped;  // their files are removed without the lock
  MutexLock lock(mutex_);
  base_ = now_locked();
  for (Line& other : lines_)
    if (other.id == line.id) {
      line.file = std::move(other.file);
      dropped.push_back(std::move(other));
    }
  std::erase_if(lines_, [&](const Line& other) { return other.id == line.id; });
  if (lines_.size() == kOrdersMax) {
    dropped.push_back(std::move(lines_.front()));
    lines_.erase(lines_.begin());
  }
  lines_.push_back(std::move(line));
  exchange_at_ = {};
  ++version_;
  return progress;
}

double OrderForecast::positions_per_second(const Line& line) {
  if (!line.is_mine) {
    const double told = line.announced.place.positions_per_second;
    return told > 0 ? told : kPositionsPerSecond;
  }
  const double seconds = seconds_since(line.began_at);
  const std::uint64_t done =
      line.progress->received_.load(std::memory_order_relaxed) - line.progress->start_;
  return done == 0 || seconds <= 0 ? kPositionsPerSecond : static_cast<double>(done) / seconds;
}

double OrderForecast::now_locked() const {
  if (lines_.empty()) return base_ + seconds_since(started_);
  const OrderProgress& progress = *lines_.back().progress;
  const std::uint64_t done = progress.received_.load(std::memory_order_relaxed) - progress.start_;
  return base_ + static_cast<double>(done) / kPositionsPerSecond;
}

double OrderForecast::now() const {
  MutexLock lock(mutex_);
  return now_locked();
}

std::uint64_t OrderForecast::version() const {
  MutexLock lock(mutex_);
  return version_;
}

/// Positions from `from` to the first use of one of the samples on a rank of this machine.
std::optional<std::uint64_t> OrderForecast::positions_to(const Line& line, std::uint32_t dataset,
                                                         const SampleRange& samples,
                                                         std::uint64_t from) {
  const SampleOrder& order = *line.announced.order;
  const std::uint64_t count = order.epoch_samples();
  const std::uint64_t batch = line.announced.place.cursor.global_batch_size;
  const std::uint64_t per_rank = batch / line.ranks.size();
  const std::uint64_t stride = (samples.count + kSamplesMax - 1) / kSamplesMax;
  std::uint64_t first = std::numeric_limits<std::uint64_t>::max();
  for (std::uint64_t i = 0; i < samples.count; i += std::max<std::uint64_t>(stride, 1)) {
    std::uint64_t ahead = 0;
    // The next two uses on any rank: in this epoch and in the next.
    for (int use = 0; use < 2 && ahead < first; ++use) {
      const std::uint64_t place = from + ahead;
      const std::optional<std::uint64_t> next = order.next_use(
          place / count, place % count, {.dataset = dataset, .sample = samples.first + i});
      if (!next) break;
      ahead += *next;
      const std::uint64_t slot = (from + ahead) % count % batch;
      if (line.ranks[slot / per_rank]) {
        first = std::min(first, ahead);
        break;
      }
      ++ahead;
    }
  }
  if (first == std::numeric_limits<std::uint64_t>::max()) return std::nullopt;
  return first;
}

/// When one line needs a chunk; nothing if it is not about it, infinity if it does not need it
/// soon.
std::optional<double> OrderForecast::use_in(const Line& line, const ChunkId& id, From from) const {
  std::optional<double> soonest;
  for (std::size_t i = 0; i < line.announced.datasets.size(); ++i) {
    const std::shared_ptr<const ChunkSamples> dataset = line.announced.datasets[i].lock();
    if (!dataset) continue;
    const std::optional<SampleRange> samples = dataset->samples_of(id);
    if (!samples) continue;
    const OrderProgress& progress = *line.progress;
    const std::uint64_t received = progress.received_.load(std::memory_order_relaxed);
    const std::uint64_t began = std::max(received, progress.began_.load(std::memory_order_relaxed));
    const std::optional<std::uint64_t> ahead = positions_to(
        line, static_cast<std::uint32_t>(i), *samples, from == From::began ? began : received);
    double at = std::numeric_limits<double>::infinity();
    if (ahead) {
      // In the clock of the last line, which runs with its positions.
      const double speed = &line == &lines_.back()
                               ? kPositionsPerSecond
                               : kPositionsPerSecond * positions_per_second(line) /
                                     positions_per_second(lines_.back());
      const std::uint64_t whole = *ahead + (from == From::began ? began - received : 0);
      at = now_locked() + static_cast<double>(whole) / speed;
    }
    soonest = std::min(soonest.value_or(at), at);
  }
  return soonest;
}

std::optional<double> OrderForecast::use_from(const ChunkId& id, From from) const {
  MutexLock lock(mutex_);
  std::optional<double> soonest;
  for (const std::vector<Line>* const lines : {&lines_, &others_})
    for (const Line& line : *lines)
      if (const std::optional<double> at = use_in(line, id, from))
        soonest = std::min(soonest.value_or(*at), *at);
  return soonest;
}

std::optional<double> OrderForecast::next_use(const ChunkId& id) const {
  return use_from(id, From::received);
}

std::optional<double> OrderForecast::use_after_reads(const ChunkId& id) const {
  return use_from(id, From::began);
}

void OrderForecast::exchange(FileOps& ops, const PathAt& folder) {
  std::vector<std::pair<Digest128, OrderPlace>> mine;
  {
    MutexLock lock(mutex_);
    if (lines_.empty() || Clock::now() < exchange_at_) return;
    exchange_at_ = Clock::now() + kExchangeEvery;
    for (Line& line : lines_) {
      OrderPlace place = line.announced.place;
      const std::uint64_t count = line.announced.order->epoch_samples();
      const std::uint64_t at = line.progress->received_.load(std::memory_order_relaxed);
      place.cursor.epoch = at / count;
      place.cursor.position = at % count;
      place.positions_per_second = positions_per_second(line);
      mine.emplace_back(line.id, place);
    }
  }
  for (const auto& [id, place] : mine) {
    // The file is taken out while it is written: what another thread announces meanwhile stays.
    std::unique_ptr<OrderFile> file;
    {
      MutexLock lock(mutex_);
      for (Line& line : lines_)
        if (line.id == id) file.swap(line.file);
    }
    if (!file) {
      Result<std::unique_ptr<OrderFile>> made = OrderFile::create(ops, folder);
      if (!made.ok()) return;  // the others take this process for one without an order
      file = *std::move(made);
    }
    if (!file->write(place).ok()) continue;
    MutexLock lock(mutex_);
    for (Line& line : lines_)
      if (line.id == id && !line.file) file.swap(line.file);
  }
  const std::vector<OrderPlace> places = read_order_files(ops, folder);
  MutexLock lock(mutex_);
  for (Line& line : lines_) {
    std::vector<bool> ranks(line.ranks.size());
    ranks[line.announced.place.rank] = true;
    for (const OrderPlace& place : places)
      if (place.world_size == ranks.size() && place.line() == line.id) ranks[place.rank] = true;
    if (ranks == line.ranks) continue;
    line.ranks = std::move(ranks);
    ++version_;
  }
  std::vector<Line> others = lines_of_others(places);
  const auto is_same = [](const Line& a, const Line& b) {
    return a.id == b.id && a.ranks == b.ranks;
  };
  if (!std::ranges::equal(others, others_, is_same)) ++version_;
  others_ = std::move(others);
}

/// The orders that only other processes have, as far as this one can compute them: it knows the
/// chunks of its own datasets.
std::vector<OrderForecast::Line> OrderForecast::lines_of_others(
    const std::vector<OrderPlace>& places) const {
  std::vector<Line> others;
  for (const OrderPlace& place : places) {
    const Digest128 id = place.line();
    const auto is_it = [&](const Line& line) { return line.id == id; };
    if (std::ranges::any_of(lines_, is_it)) continue;
    if (const auto known = std::ranges::find_if(others, is_it); known != others.end()) {
      if (known->ranks.size() == place.world_size) known->ranks[place.rank] = true;
      continue;
    }
    const auto mine = std::ranges::find_if(lines_, [&](const Line& line) {
      return line.announced.datasets.size() == 1 &&
             line.announced.place.cursor.fingerprint == place.cursor.fingerprint;
    });
    if (mine == lines_.end() || others.size() == kOrdersMax) continue;
    Result<std::unique_ptr<SampleOrder>> order = make_order(place.cursor.order);
    if (!order.ok() || !is_computable(**order)) continue;
    const std::uint64_t count = (*order)->epoch_samples();
    Line line{.announced = {.place = place,
                            .order = *std::move(order),
                            .datasets = mine->announced.datasets},
              .id = id,
              .progress = std::shared_ptr<OrderProgress>(
                  new OrderProgress(count, place.cursor.epoch * count + place.cursor.position)),
              .began_at = Clock::now(),
              .ranks = std::vector<bool>(place.world_size),
              .file = nullptr,
              .is_mine = false};
    line.ranks[place.rank] = true;
    others.push_back(std::move(line));
  }
  return others;
}

}  // namespace stoker
