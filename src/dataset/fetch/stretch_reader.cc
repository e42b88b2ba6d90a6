#include "dataset/fetch/stretch_reader.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "io/engine/transfer.h"
#include "store/object_reader.h"
#include "store/open_object.h"

namespace stoker {
namespace {

using Way = FetchPlan::Way;
using Stretch = FetchPlan::Stretch;

/// Reads from the page cache between two polls of the engine.
constexpr std::size_t kWarmStride = 32;
/// A larger read from the page cache is split, so that a stop takes effect soon.
constexpr std::size_t kWarmPieceBytes = std::size_t{8} << 20;

/// Reserves twice what is needed, so that batches of similar size allocate once.
template <typename T>
void make_room(std::vector<T>& items, std::size_t count) {
  if (items.capacity() < count) items.reserve(2 * count);
}

/// Blocks that this thread has fetched from a device so far. Filesystems without a block device do
/// not count here.
std::int64_t blocks_fetched() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

}  // namespace

Status StretchReader::start_engine() {
  if (reader_) return {};
  Result<std::unique_ptr<Engine>> made = make_engine(options_.engine, options_.engine_options);
  if (!made.ok()) return made.status().with_context("cannot make an engine to read shards");
  engine_ = made->get();
  reader_.emplace(*std::move(made));
  return {};
}

Result<std::optional<RangeReader>*> StretchReader::start_source(ObjectStore& store) {
  auto found = std::ranges::find(store_readers_, &store, &StoreReader::store);
  if (found == store_readers_.end())
    found = store_readers_.insert(found, {.store = &store, .reader = std::nullopt});
  if (!found->reader) {
    Result<std::unique_ptr<RangeSource>> made = open_source(store, options_.engine_options.depth);
    if (!made.ok()) return made.status().with_context("cannot make a source to read shards");
    found->reader.emplace(*std::move(made));
  }
  return &found->reader;
}

Status StretchReader::register_memory(std::span<std::byte> memory) {
  STOKER_TRY(start_engine());
  return engine_->register_buffers(memory);
}

Status StretchReader::read(std::span<const Stretch> stretches, const Places& places,
                           StretchSink& sink, const std::stop_token& stop) {
  stretches_ = stretches;
  places_ = places;
  sink_ = &sink;
  stop_ = stop;
  make_room(cold_, stretches.size());
  make_room(warm_, stretches.size());
  cold_.clear();
  warm_.clear();
  far_.clear();
  next_warm_ = 0;
  for (std::uint32_t i = 0; i < stretches.size(); ++i) {
    if (stretches[i].way == Way::page_cache) warm_.push_back(i);
    if (stretches[i].way == Way::engine) cold_.push_back(i);
    if (stretches[i].way == Way::store) far_.push_back(i);
  }
  if (!cold_.empty()) {
    STOKER_TRY(start_engine());
    STOKER_TRY(read_cold_stretches(reader_, counters_.wait_ns));
  }
  STOKER_TRY(read_store_stretches());
  cold_.clear();
  return read_warm_stretches(sink, stop);
}

/// Reads store by store: `cold_` gets the stretches of each in turn.
Status StretchReader::read_store_stretches() {
  while (!far_.empty()) {
    ObjectStore& store = store_of(stretches_[far_.front()]);
    const ShardCache* const cache = shards_.dataset(stretches_[far_.front()].dataset).cache().get();
    cold_.clear();
    std::erase_if(far_, [&](std::uint32_t i) {
      const bool is_here = &store_of(stretches_[i]) == &store;
      if (is_here) cold_.push_back(i);
      return is_here;
    });
    STOKER_ASSIGN(std::optional<RangeReader>* const reader, start_source(store));
    const Deadline begun = Clock::now();
    const std::uint64_t before = cache == nullptr ? 0 : cache->source_reads();
    Counter waited;
    STOKER_TRY(read_cold_stretches(*reader, waited));
    const auto took = static_cast<std::uint64_t>((Clock::now() - begun).count());
    // A cache that needed its source has waited for it, and not for its own files.
    const bool is_hit = cache != nullptr && cache->source_reads() == before;
    (is_hit ? counters_.wait_ns : counters_.store_wait_ns).add(is_hit ? waited.value() : took);
  }
  return {};
}

Status StretchReader::read_cold_stretches(std::optional<RangeReader>& reader, Counter& wait_ns) {
  next_cold_ = 0;
  const auto check = [this] {
    return stop_.stop_requested() ? Status(Code::cancelled, "stopped while reading samples")
                                  : Status();
  };
  const Status status = reader->read(
      *this, {.piece_bytes = options_.piece_bytes, .check = check, .wait_ns = &wait_ns});
  if (!reader->is_usable()) reader.reset();  // the next read makes a new one
  return status;
}

RangeFeed::Next StretchReader::next(ReadPlan& plan) {
  for (; next_cold_ < cold_.size(); ++next_cold_) {
    const Stretch& stretch = stretches_[cold_[next_cold_]];
    if (!has_room_for(stretch)) return Next::later;
    Result<ReadPlan> made = plan_of(stretch);
    if (!made.ok()) {
      sink_->stretch_failed(stretch, made.status());
      continue;
    }
    plan = *made;
    plan.request.tag = cold_[next_cold_++];
    shards_.pin(stretch.dataset, stretch.shard);
    return Next::range;
  }
  return Next::end;
}

Status StretchReader::came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) {
  const Stretch& stretch = stretches_[plan.request.tag];
  const OpenShard shard =
      *shards_.open(stretch.dataset, stretch.shard);  // open, because it is pinned
  if (bytes.ok()) {
    count(stretch, plan.request.buffer.size(), options_.piece_bytes);
    if (shard.file != nullptr) shard.file->settle(plan);
    sink_->stretch_done(stretch, *bytes);
  } else {
    sink_->stretch_failed(stretch, naming(bytes.status(), shard.object->key()));
  }
  shards_.unpin(stretch.dataset, stretch.shard);
  return {};
}

void StretchReader::dropped(const ReadPlan& plan) {
  const Stretch& stretch = stretches_[plan.request.tag];
  shards_.unpin(stretch.dataset, stretch.shard);
}

Result<bool> StretchReader::work_meanwhile() {
  STOKER_TRY(read_warm_stretches(*sink_, stop_));
  return next_warm_ < warm_.size() && has_room_for(stretches_[warm_[next_warm_]]);
}

/// Reads the next stretches from the page cache: all of them if there are no cold stretches.
Status StretchReader::read_warm_stretches(StretchSink& sink, const std::stop_token& stop) {
  if (next_warm_ == warm_.size()) return {};
  const std::size_t end =
      cold_.empty() ? warm_.size() : std::min(next_warm_ + kWarmStride, warm_.size());
  const std::size_t begin = next_warm_;
  const std::int64_t blocks_before = blocks_fetched();
  for (; next_warm_ < end; ++next_warm_) {
    const Stretch& stretch = stretches_[warm_[next_warm_]];
    if (!has_room_for(stretch)) break;  // until other stretches complete
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while reading samples");
    STOKER_TRY(read_warm(stretch, sink, stop));
  }
  if (blocks_fetched() == blocks_before) return {};
  // Some data was not in the page cache.
  for (std::size_t i = begin; i < next_warm_; ++i)
    shards_.doubt(stretches_[warm_[i]].dataset, stretches_[warm_[i]].shard);
  return {};
}

Result<ReadPlan> StretchReader::plan_of(const Stretch& stretch) {
  STOKER_ASSIGN(const OpenShard shard, shards_.open(stretch.dataset, stretch.shard));
  const std::span<std::byte> room = places_.memory.subspan(stretch.room_at);
  if (shard.file != nullptr)
    return shard.file->plan_read(stretch.offset_bytes, stretch.size_bytes, room, stretch.path);
  return ReadPlan{
      .request = request_of(*shard.object, stretch.offset_bytes, room.first(stretch.size_bytes)),
      .size_bytes = stretch.size_bytes};
}

std::int64_t StretchReader::transfer(const Request& request) const {
  Transfer transfer(request);
  for (;;) {
    std::int64_t raw = call_once(transfer);
    if (options_.engine_options.tamper) raw = options_.engine_options.tamper(request, raw);
    if (transfer.advance(raw)) return transfer.completion().result;
  }
}

/// Fails only if it was stopped.
Status StretchReader::read_warm(const Stretch& stretch, StretchSink& sink,
                                const std::stop_token& stop) {
  const std::span<std::byte> room = places_.packed.subspan(stretch.room_at, stretch.size_bytes);
  const Result<OpenShard> shard = shards_.open(stretch.dataset, stretch.shard);
  if (!shard.ok()) {
    sink.stretch_failed(stretch, shard.status());
    return {};
  }
  // If the object is not a local file, only empty records are planned for the page cache.
  const int fd = shard->file == nullptr ? -1 : shard->file->buffered_fd();
  ReadPlan plan{.request = {.fd = fd, .offset_bytes = stretch.offset_bytes},
                .size_bytes = stretch.size_bytes};
  for (std::uint64_t at = 0; at < stretch.size_bytes;) {
    if (at > 0 && stop.stop_requested())
      return Status(Code::cancelled, "stopped while reading a sample");
    Request request = plan.request;
    request.offset_bytes += at;
    request.buffer =
        room.subspan(at, std::min<std::uint64_t>(stretch.size_bytes - at, kWarmPieceBytes));
    const std::int64_t result = transfer(request);
    if (result < static_cast<std::int64_t>(request.buffer.size())) {
      const std::int64_t whole = result < 0 ? result : static_cast<std::int64_t>(at) + result;
      sink.stretch_failed(stretch, plan.slice(whole).status().with_context(shard->object->key()));
      return {};
    }
    at += request.buffer.size();
  }
  count(stretch, stretch.size_bytes, stretch.size_bytes);
  sink.stretch_done(stretch, room);
  return {};
}

/// A range that was split counts as several reads.
void StretchReader::count(const Stretch& stretch, std::size_t size_bytes, std::size_t piece_bytes) {
  const std::size_t reads = size_bytes <= piece_bytes ? 1 : (size_bytes - 1) / piece_bytes + 1;
  const auto add = [&](Counter& read_count, Counter& byte_count) {
    read_count.add(reads);
    byte_count.add(size_bytes);
  };
  if (stretch.way == Way::page_cache)
    return add(counters_.page_cache_reads, counters_.page_cache_bytes);
  if (stretch.way == Way::store) return add(counters_.store_reads, counters_.store_bytes);
  switch (stretch.path) {
    case IoPath::direct: return add(counters_.direct_reads, counters_.direct_bytes);
    case IoPath::buffered: return add(counters_.buffered_reads, counters_.buffered_bytes);
    case IoPath::dont_cache:
    case IoPath::fadvise_drop: return add(counters_.drop_behind_reads, counters_.drop_behind_bytes);
  }
}

}  // namespace stoker
