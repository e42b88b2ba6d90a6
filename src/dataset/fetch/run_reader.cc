#include "dataset/fetch/run_reader.h"

#include <sys/resource.h>

#include <algorithm>

#include "base/clock.h"
#include "io/engine/transfer.h"

namespace stoker {
namespace {

using Way = FetchPlan::Way;
using Run = FetchPlan::Run;

/// Longest wait before the stop token is looked at.
constexpr nanoseconds kStopSlice = std::chrono::milliseconds(50);
/// Long enough to enter the kernel, where completions are fetched.
constexpr nanoseconds kGlance = std::chrono::microseconds(1);
/// Reads of the page cache between two looks at the engine.
constexpr std::size_t kWarmStride = 32;
/// A larger read of the page cache is cut, so that a stop is not late.
constexpr std::size_t kWarmPieceBytes = std::size_t{8} << 20;
constexpr std::size_t kReapMax = 64;

/// Twice what is wanted, so that batches of about one size allocate once.
template <typename T>
void make_room(std::vector<T>& items, std::size_t count) {
  if (items.capacity() < count) items.reserve(2 * count);
}

/// Blocks that this thread has had to fetch from a device so far: what it waits for, and nothing
/// that others do. Filesystems without a device of their own do not count here.
std::int64_t blocks_fetched() {
  rusage usage{};
  return ::getrusage(RUSAGE_THREAD, &usage) == 0 ? usage.ru_inblock : 0;
}

}  // namespace

Status RunReader::start_engine() {
  if (engine_) return {};
  Result<std::unique_ptr<Engine>> made = make_engine(options_.engine, options_.engine_options);
  if (!made.ok()) return made.status().with_context("an engine to read shards with");
  engine_ = *std::move(made);
  staged_.reserve(engine_->caps().depth_max);
  return {};
}

Status RunReader::register_memory(std::span<std::byte> memory) {
  STOKER_TRY(start_engine());
  return engine_->register_buffers(memory);
}

void RunReader::cut(std::span<const Run> runs, std::uint32_t run) {
  const std::uint64_t whole = runs[run].skip_bytes + runs[run].size_bytes;
  // Merged neighbours come as they are; what is longer is one record. Pieces end on multiples of
  // their size in the room, and so, for direct reads, on blocks.
  for (std::uint64_t at = 0; at < whole; at += options_.piece_bytes) {
    pieces_.push_back({.run = run, .at_bytes = at, .size_bytes = options_.piece_bytes});
    ++progress_[run].pieces_left;
  }
}

Status RunReader::read(std::span<const Run> runs, const Places& places, RunSink& sink,
                       const std::stop_token& stop) {
  runs_ = runs;
  places_ = places;
  make_room(progress_, runs.size());
  make_room(pieces_, runs.size());
  make_room(is_in_flight_, runs.size());
  make_room(warm_, runs.size());
  progress_.assign(runs.size(), Progress{});
  pieces_.clear();
  warm_.clear();
  staged_.clear();
  next_piece_ = 0;
  next_warm_ = 0;
  for (std::uint32_t i = 0; i < runs.size(); ++i) {
    progress_[i].result = static_cast<std::int64_t>(runs[i].skip_bytes + runs[i].size_bytes);
    if (runs[i].way == Way::page_cache) warm_.push_back(i);
    if (runs[i].way == Way::engine) cut(runs, i);
  }
  is_in_flight_.assign(pieces_.size(), false);
  if (!pieces_.empty()) STOKER_TRY(start_engine());
  const Status status = go(sink, stop);
  if (!status.ok()) abandon();
  return status;
}

Status RunReader::go(RunSink& sink, const std::stop_token& stop) {
  for (;;) {
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while reading samples");
    STOKER_TRY(submit(sink));
    STOKER_TRY(read_warm_runs(sink, stop));
    const std::size_t in_flight = engine_ ? engine_->in_flight() : 0;
    const bool is_warm_left = next_warm_ < warm_.size();
    if (in_flight == 0 && next_piece_ == pieces_.size() && !is_warm_left) return {};
    if (in_flight == 0) continue;
    if (!is_warm_left || !has_room_for(runs_[warm_[next_warm_]])) {
      STOKER_TRY(reap(sink, std::max<std::size_t>(in_flight / 8, 1), kStopSlice));
    } else if (next_piece_ < pieces_.size()) {
      STOKER_TRY(reap(sink, 1, kGlance));  // the device shall not run dry
    }
  }
}

/// The next runs of the page cache: all of them if nothing else is to be done.
Status RunReader::read_warm_runs(RunSink& sink, const std::stop_token& stop) {
  if (next_warm_ == warm_.size()) return {};
  const std::size_t end =
      pieces_.empty() ? warm_.size() : std::min(next_warm_ + kWarmStride, warm_.size());
  const std::size_t begin = next_warm_;
  const std::int64_t blocks_before = blocks_fetched();
  for (; next_warm_ < end; ++next_warm_) {
    const Run& run = runs_[warm_[next_warm_]];
    if (!has_room_for(run)) break;  // until some of the others are completed
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while reading samples");
    STOKER_TRY(read_warm(run, sink, stop));
  }
  if (blocks_fetched() == blocks_before) return {};
  // Some of it was not in the page cache after all.
  for (std::size_t i = begin; i < next_warm_; ++i)
    shards_.doubt(runs_[warm_[i]].dataset, runs_[warm_[i]].shard);
  return {};
}

Result<ReadPlan> RunReader::plan_of(const Run& run) {
  STOKER_ASSIGN(const File* file, shards_.file(run.dataset, run.shard));
  return file->plan_read(run.offset_bytes, run.size_bytes, places_.memory.subspan(run.room_at),
                         run.path);
}

/// Turns pieces into requests, as many as the engine has room for.
void RunReader::stage(RunSink& sink) {
  const std::size_t room = engine_->caps().depth_max - engine_->in_flight();
  while (next_piece_ < pieces_.size() && staged_.size() < room) {
    Piece& piece = pieces_[next_piece_];
    const Run& run = runs_[piece.run];
    if (!has_room_for(run)) return;  // until some are completed
    const Result<ReadPlan> plan = plan_of(run);
    const std::size_t tag = next_piece_++;
    if (!plan.ok()) {
      Progress& progress = progress_[piece.run];
      progress.failure = plan.status();
      if (--progress.pieces_left == 0) finish(run, progress, sink);
      continue;
    }
    const std::span<std::byte> buffer = plan->request.buffer.subspan(piece.at_bytes);
    piece.size_bytes = std::min<std::uint64_t>(piece.size_bytes, buffer.size());
    Request request = plan->request;
    request.offset_bytes += piece.at_bytes;
    request.buffer = buffer.first(piece.size_bytes);
    request.tag = tag;
    shards_.pin(run.dataset, run.shard);
    is_in_flight_[tag] = true;
    staged_.push_back(request);
  }
}

Status RunReader::submit(RunSink& sink) {
  if (next_piece_ == pieces_.size() && staged_.empty()) return {};
  stage(sink);
  if (staged_.empty()) return {};
  STOKER_ASSIGN(const std::size_t accepted, engine_->submit(staged_));
  staged_.erase(staged_.begin(), staged_.begin() + static_cast<std::ptrdiff_t>(accepted));
  return {};
}

Status RunReader::reap(RunSink& sink, std::size_t count_min, nanoseconds timeout) {
  std::array<Completion, kReapMax> done;
  const Deadline begin = Clock::now();
  STOKER_ASSIGN(const std::size_t count,
                engine_->reap(done, std::min(count_min, done.size()), timeout));
  counters_.wait_ns.add(static_cast<std::uint64_t>((Clock::now() - begin).count()));
  for (std::size_t i = 0; i < count; ++i) complete(done[i], sink);
  return {};
}

void RunReader::complete(const Completion& completion, RunSink& sink) {
  const Piece& piece = pieces_[completion.tag];
  const Run& run = runs_[piece.run];
  Progress& progress = progress_[piece.run];
  is_in_flight_[completion.tag] = false;
  if (completion.result < 0) {
    if (progress.result >= 0) progress.result = completion.result;
  } else {
    count(run, static_cast<std::size_t>(completion.result));
    // What is short of its piece ends the run there; a piece that is not, ends it nowhere.
    const auto size = static_cast<std::uint64_t>(completion.result);
    if (size < piece.size_bytes)
      progress.result = std::min(progress.result, static_cast<std::int64_t>(piece.at_bytes + size));
  }
  if (--progress.pieces_left == 0) finish(run, progress, sink);
  shards_.unpin(run.dataset, run.shard);
}

void RunReader::finish(const Run& run, const Progress& progress, RunSink& sink) {
  if (!progress.failure.ok()) return sink.run_failed(run, progress.failure);
  const Result<ReadPlan> plan = plan_of(run);  // the file is pinned, and so open
  if (!plan.ok()) return sink.run_failed(run, plan.status());
  const File& file = **shards_.file(run.dataset, run.shard);
  const Result<std::span<std::byte>> bytes = plan->slice(progress.result);
  if (!bytes.ok()) return sink.run_failed(run, bytes.status().with_context(file.path()));
  file.settle(*plan);
  sink.run_done(run, *bytes);
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
  const Result<const File*> file = shards_.file(run.dataset, run.shard);
  if (!file.ok()) {
    sink.run_failed(run, file.status());
    return {};
  }
  ReadPlan plan{.request = {.fd = (*file)->buffered_fd(), .offset_bytes = run.offset_bytes},
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
      sink.run_failed(run, plan.slice(whole).status().with_context((*file)->path()));
      return {};
    }
    at += request.buffer.size();
  }
  count(run, run.size_bytes);
  sink.run_done(run, room);
  return {};
}

void RunReader::count(const Run& run, std::size_t size_bytes) {
  if (run.way == Way::page_cache) {
    counters_.page_cache_reads.add();
    counters_.page_cache_bytes.add(size_bytes);
    return;
  }
  switch (run.path) {
    case IoPath::direct:
      counters_.direct_reads.add();
      counters_.direct_bytes.add(size_bytes);
      break;
    case IoPath::buffered:
      counters_.buffered_reads.add();
      counters_.buffered_bytes.add(size_bytes);
      break;
    case IoPath::dont_cache:
    case IoPath::fadvise_drop:
      counters_.drop_behind_reads.add();
      counters_.drop_behind_bytes.add(size_bytes);
      break;
  }
}

/// Memory is the caller's again only once the kernel has let go of it, however long that takes.
void RunReader::abandon() {
  if (!engine_) return;
  for (std::size_t tag = 0; tag < pieces_.size(); ++tag)
    if (is_in_flight_[tag]) static_cast<void>(engine_->cancel(tag));
  std::array<Completion, kReapMax> dropped;
  while (engine_->in_flight() > 0) {
    if (!engine_->reap(dropped, 1, kStopSlice).ok()) {
      engine_.reset();  // waits for what is in flight; the next read makes another
      break;
    }
  }
  for (std::size_t tag = 0; tag < pieces_.size(); ++tag)
    if (is_in_flight_[tag])
      shards_.unpin(runs_[pieces_[tag].run].dataset, runs_[pieces_[tag].run].shard);
}

}  // namespace stoker
