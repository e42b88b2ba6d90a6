#include "dataset/fetch/run_reader.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "io/engine/transfer.h"

namespace stoker {
namespace {

using Way = FetchPlan::Way;
using Run = FetchPlan::Run;

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

Status RunReader::start_engine() {
  if (reader_) return {};
  Result<std::unique_ptr<Engine>> made = make_engine(options_.engine, options_.engine_options);
  if (!made.ok()) return made.status().with_context("cannot make an engine to read shards");
  engine_ = made->get();
  reader_.emplace(*std::move(made));
  return {};
}

Result<std::optional<RangeReader>*> RunReader::start_source(ObjectStore& store) {
  auto found = std::ranges::find(store_readers_, &store, &StoreReader::store);
  if (found == store_readers_.end())
    found = store_readers_.insert(found, {.store = &store, .reader = std::nullopt});
  if (!found->reader) {
    Result<std::unique_ptr<RangeSource>> made = store.make_source(options_.engine_options.depth);
    if (!made.ok()) return made.status().with_context("cannot make a source to read shards");
    found->reader.emplace(*std::move(made));
  }
  return &found->reader;
}

Status RunReader::register_memory(std::span<std::byte> memory) {
  STOKER_TRY(start_engine());
  return engine_->register_buffers(memory);
}

Status RunReader::read(std::span<const Run> runs, const Places& places, RunSink& sink,
                       const std::stop_token& stop) {
  runs_ = runs;
  places_ = places;
  sink_ = &sink;
  stop_ = stop;
  make_room(cold_, runs.size());
  make_room(warm_, runs.size());
  cold_.clear();
  warm_.clear();
  far_.clear();
  next_warm_ = 0;
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    if (runs[i].way == Way::page_cache) warm_.push_back(i);
    if (runs[i].way == Way::engine) cold_.push_back(i);
    if (runs[i].way == Way::store) far_.push_back(i);
  }
  if (!cold_.empty()) {
    STOKER_TRY(start_engine());
    STOKER_TRY(read_cold_runs(reader_));
  }
  STOKER_TRY(read_store_runs());
  cold_.clear();
  return read_warm_runs(sink, stop);
}

/// Reads store by store: `cold_` gets the runs of each in turn.
Status RunReader::read_store_runs() {
  while (!far_.empty()) {
    ObjectStore& store = store_of(runs_[far_.front()]);
    cold_.clear();
    std::erase_if(far_, [&](std::uint32_t i) {
      const bool is_here = &store_of(runs_[i]) == &store;
      if (is_here) cold_.push_back(i);
      return is_here;
    });
    STOKER_ASSIGN(std::optional<RangeReader>* const reader, start_source(store));
    STOKER_TRY(read_cold_runs(*reader));
  }
  return {};
}

Status RunReader::read_cold_runs(std::optional<RangeReader>& reader) {
  next_cold_ = 0;
  const auto check = [this] {
    return stop_.stop_requested() ? Status(Code::cancelled, "stopped while reading samples")
                                  : Status();
  };
  const Status status = reader->read(
      *this, {.piece_bytes = options_.piece_bytes, .check = check, .wait_ns = &counters_.wait_ns});
  if (!reader->is_usable()) reader.reset();  // the next read makes a new one
  return status;
}

RangeFeed::Next RunReader::next(ReadPlan& plan) {
  for (; next_cold_ < cold_.size(); ++next_cold_) {
    const Run& run = runs_[cold_[next_cold_]];
    if (!has_room_for(run)) return Next::later;
    Result<ReadPlan> made = plan_of(run);
    if (!made.ok()) {
      sink_->run_failed(run, made.status());
      continue;
    }
    plan = *made;
    plan.request.tag = cold_[next_cold_++];
    shards_.pin(run.dataset, run.shard);
    return Next::range;
  }
  return Next::end;
}

Status RunReader::came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) {
  const Run& run = runs_[plan.request.tag];
  const OpenShard shard = *shards_.open(run.dataset, run.shard);  // open, because it is pinned
  if (bytes.ok()) {
    count(run, plan.request.buffer.size(), options_.piece_bytes);
    if (shard.file != nullptr) shard.file->settle(plan);
    sink_->run_done(run, *bytes);
  } else {
    sink_->run_failed(run, bytes.status().with_context(shard.object->key()));
  }
  shards_.unpin(run.dataset, run.shard);
  return {};
}

void RunReader::dropped(const ReadPlan& plan) {
  const Run& run = runs_[plan.request.tag];
  shards_.unpin(run.dataset, run.shard);
}

Result<bool> RunReader::work_meanwhile() {
  STOKER_TRY(read_warm_runs(*sink_, stop_));
  return next_warm_ < warm_.size() && has_room_for(runs_[warm_[next_warm_]]);
}

/// Reads the next runs from the page cache: all of them if there are no cold runs.
Status RunReader::read_warm_runs(RunSink& sink, const std::stop_token& stop) {
  if (next_warm_ == warm_.size()) return {};
  const std::size_t end =
      cold_.empty() ? warm_.size() : std::min(next_warm_ + kWarmStride, warm_.size());
  const std::size_t begin = next_warm_;
  const std::int64_t blocks_before = blocks_fetched();
  for (; next_warm_ < end; ++next_warm_) {
    const Run& run = runs_[warm_[next_warm_]];
    if (!has_room_for(run)) break;  // until other runs complete
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while reading samples");
    STOKER_TRY(read_warm(run, sink, stop));
  }
  if (blocks_fetched() == blocks_before) return {};
  // Some data was not in the page cache.
  for (std::size_t i = begin; i < next_warm_; ++i)
    shards_.doubt(runs_[warm_[i]].dataset, runs_[warm_[i]].shard);
  return {};
}

Result<ReadPlan> RunReader::plan_of(const Run& run) {
  STOKER_ASSIGN(const OpenShard shard, shards_.open(run.dataset, run.shard));
  const std::span<std::byte> room = places_.memory.subspan(run.room_at);
  if (shard.file != nullptr)
    return shard.file->plan_read(run.offset_bytes, run.size_bytes, room, run.path);
  return ReadPlan{
      .request = request_of(*shard.object, run.offset_bytes, room.first(run.size_bytes)),
      .size_bytes = run.size_bytes};
}

std::int64_t RunReader::transfer(const Request& request) const {
  Transfer transfer(request);
  for (;;) {
    std::int64_t raw = call_once(transfer);
    if (options_.engine_options.tamper) raw = options_.engine_options.tamper(request, raw);
    if (transfer.advance(raw)) return transfer.completion().result;
  }
}

/// Fails only if it was stopped.
Status RunReader::read_warm(const Run& run, RunSink& sink, const std::stop_token& stop) {
  const std::span<std::byte> room = places_.packed.subspan(run.room_at, run.size_bytes);
  const Result<OpenShard> shard = shards_.open(run.dataset, run.shard);
  if (!shard.ok()) {
    sink.run_failed(run, shard.status());
    return {};
  }
  // If the object is not a local file, only empty records are planned for the page cache.
  const int fd = shard->file == nullptr ? -1 : shard->file->buffered_fd();
  ReadPlan plan{.request = {.fd = fd, .offset_bytes = run.offset_bytes},
                .size_bytes = run.size_bytes};
  for (std::uint64_t at = 0; at < run.size_bytes;) {
    if (at > 0 && stop.stop_requested())
      return Status(Code::cancelled, "stopped while reading a sample");
    Request request = plan.request;
    request.offset_bytes += at;
    request.buffer =
        room.subspan(at, std::min<std::uint64_t>(run.size_bytes - at, kWarmPieceBytes));
    const std::int64_t result = transfer(request);
    if (result < static_cast<std::int64_t>(request.buffer.size())) {
      const std::int64_t whole = result < 0 ? result : static_cast<std::int64_t>(at) + result;
      sink.run_failed(run, plan.slice(whole).status().with_context(shard->object->key()));
      return {};
    }
    at += request.buffer.size();
  }
  count(run, run.size_bytes, run.size_bytes);
  sink.run_done(run, room);
  return {};
}

/// A range that was split counts as several reads.
void RunReader::count(const Run& run, std::size_t size_bytes, std::size_t piece_bytes) {
  const std::size_t reads = size_bytes <= piece_bytes ? 1 : (size_bytes - 1) / piece_bytes + 1;
  const auto add = [&](Counter& read_count, Counter& byte_count) {
    read_count.add(reads);
    byte_count.add(size_bytes);
  };
  if (run.way == Way::page_cache)
    return add(counters_.page_cache_reads, counters_.page_cache_bytes);
  if (run.way == Way::store) return add(counters_.store_reads, counters_.store_bytes);
  switch (run.path) {
    case IoPath::direct: return add(counters_.direct_reads, counters_.direct_bytes);
    case IoPath::buffered: return add(counters_.buffered_reads, counters_.buffered_bytes);
    case IoPath::dont_cache:
    case IoPath::fadvise_drop: return add(counters_.drop_behind_reads, counters_.drop_behind_bytes);
  }
}

}  // namespace stoker
