#include "dataset/shard_cache/cached_source.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

namespace stoker::internal {
namespace {

using Begin = CacheDirectory::Begin;

/// How often a chunk is looked for that another thread or process is fetching.
constexpr nanoseconds kLookEvery{1'000'000};

}  // namespace

CachedSource::CachedSource(std::shared_ptr<ShardCache> cache, std::unique_ptr<RangeSource> source,
                           std::uint32_t depth)
    : cache_(std::move(cache)), depth_(std::max(depth, 1U)), source_(std::move(source)) {}

CachedSource::~CachedSource() {
  source_.reset();  // waits for what is in flight
  engine_.reset();
  for (Read& read : reads_)
    if (read.is_chunk) cache_->abandon(std::move(read.fetch));
}

Result<std::size_t> CachedSource::submit(std::span<const Request> requests) {
  const std::size_t count = std::min<std::size_t>(requests.size(), depth_ - in_flight_);
  for (const Request& request : requests.first(count)) accept(request);
  STOKER_TRY(feed());
  return count;
}

/// Cuts a request into parts, and takes each.
void CachedSource::accept(const Request& request) {
  const auto& object = static_cast<const CachedObject&>(*request.object);
  const std::uint64_t size = object.info().size_bytes;
  ++in_flight_;
  Job& job = jobs_.emplace_back(Job{.tag = request.tag, .parts_left = 1});
  std::vector<Part> parts;
  std::uint64_t at = request.offset_bytes;
  const auto cut = [&](std::span<std::byte> out) {
    while (!out.empty() && at < size) {
      Part part{.job = &job, .object = &object, .chunk = {}, .offset_bytes = at, .out = {}};
      std::uint64_t bytes = std::min<std::uint64_t>(out.size(), size - at);
      if (object.is_cached()) {
        part.chunk = object.chunk_at(at);
        bytes = std::min(bytes, part.chunk.offset_bytes + part.chunk.size_bytes - at);
        bytes =
            std::min(bytes, kChunkPieceBytes - (at - part.chunk.offset_bytes) % kChunkPieceBytes);
      }
      part.out = out.first(static_cast<std::size_t>(bytes));
      parts.push_back(part);
      out = out.subspan(static_cast<std::size_t>(bytes));
      at += bytes;
    }
  };
  if (request.pieces.empty()) {
    cut(request.buffer);
  } else {
    for (const std::span<std::byte> piece : request.pieces) cut(piece);
  }
  job.parts_left += parts.size();
  for (const Part& part : parts) take(part);
  finish({.job = &job, .object = &object, .chunk = {}, .offset_bytes = at, .out = {}}, 0);
}

/// Reads a part from the local disk, or begins what brings it.
void CachedSource::take(Part part) {
  if (!part.object->is_cached()) return start_direct(part);
  const std::uint64_t inside = part.offset_bytes - part.chunk.offset_bytes;
  if (join(part) || start_disk(part)) return;
  if (cache_->read(part.chunk, inside, part.out))
    return finish(part, static_cast<std::int64_t>(part.out.size()));
  if (fetch_bytes_ > 0 && fetch_bytes_ + part.chunk.size_bytes > kFetchBytesMax) {
    deferred_.push_back(part);
    return;
  }
  ChunkFetch fetch;
  switch (cache_->begin(part.chunk, fetch)) {
    case Begin::fetch: return start_chunk(part, std::move(fetch));
    case Begin::no_room: return start_direct(part);
    case Begin::present:
    case Begin::busy: break;
  }
  if (part.deadline == Deadline::max()) {
    cache_->count_wait();
    part.deadline = deadline_after(cache_->options().busy_timeout);
  }
  if (Clock::now() >= part.deadline) return start_direct(part);
  busy_.push_back(part);
}

/// Begins to read the part past the page cache, or has it wait for that; false if the chunk is not
/// there, or is to be read otherwise.
bool CachedSource::start_disk(const Part& part) {
  // One range at a time needs no ring: that is a source for a single read.
  if (depth_ == 1 || part.is_retried || (has_tried_engine_ && !engine_)) return false;
  std::shared_ptr<const ChunkFile> chunk = cache_->open_chunk(part.chunk);
  if (chunk == nullptr) return false;
  const std::optional<ChunkFile::DirectRead> read =
      chunk->plan_direct(part.offset_bytes - part.chunk.offset_bytes, part.out.size());
  if (!read) return false;
  if (!has_tried_engine_) {
    has_tried_engine_ = true;
    auto memory = MappedArena::map(kDiskReadsMax * kChunkPieceBytes, false, false);
    auto engine = make_engine(EngineKind::automatic, {.depth = kDiskReadsMax});
    if (!memory.ok() || !engine.ok()) return false;
    disk_memory_ = std::make_unique<MappedArena>(*std::move(memory));
    engine_ = *std::move(engine);
    disk_reads_.resize(std::min<std::size_t>(kDiskReadsMax, engine_->depth_max()));
    for (std::size_t slot = 0; slot < disk_reads_.size(); ++slot) {
      disk_reads_[slot].memory = disk_memory_->bytes().data() + slot * kChunkPieceBytes;
      disk_free_.push_back(slot);
    }
  }
  if (disk_free_.empty()) {
    disk_waiting_.push_back(part);
    return true;
  }
  const std::size_t slot = disk_free_.back();
  DiskRead& disk = disk_reads_[slot];
  const Request request{.fd = read->fd,
                        .offset_bytes = read->offset_bytes,
                        .buffer = std::span(disk.memory, read->room_bytes),
                        .align_bytes = 4096,
                        .tag = slot};
  const Result<std::size_t> taken = engine_->submit({&request, 1});
  if (!taken.ok() || *taken == 0) return false;
  disk_free_.pop_back();
  disk.part = part;
  disk.chunk = std::move(chunk);
  disk.read = *read;
  return true;
}

Status CachedSource::reap_disk(nanoseconds timeout) {
  if (!engine_ || engine_->in_flight() == 0) return {};
  std::array<Completion, kDiskReadsMax> came{};
  STOKER_ASSIGN(const std::size_t count, engine_->reap(came, timeout.count() > 0 ? 1 : 0, timeout));
  for (const Completion& each : std::span(came).first(count)) disk_done(each.tag, each.result);
  return {};
}

void CachedSource::disk_done(std::size_t slot, std::int64_t result) {
  DiskRead& disk = disk_reads_[slot];
  Part part = disk.part;
  const std::shared_ptr<const ChunkFile> chunk = std::move(disk.chunk);
  const Status status =
      chunk->finish_direct(disk.read, result, std::span(disk.memory, disk.read.room_bytes),
                           part.offset_bytes - part.chunk.offset_bytes, part.out);
  disk_free_.push_back(slot);
  while (!disk_free_.empty() && !disk_waiting_.empty()) {
    const Part next = disk_waiting_.front();
    disk_waiting_.pop_front();
    take(next);
  }
  // Blocks of the device may be larger than 4096 bytes: that is no failure of the chunk.
  if (result != -EINVAL) cache_->read_ended(*chunk, status, part.out.size());
  if (status.ok()) return finish(part, static_cast<std::int64_t>(part.out.size()));
  part.is_retried = true;
  take(part);
}

/// Whether the part comes with a chunk that this source is fetching.
bool CachedSource::join(const Part& part) {
  const auto found = std::ranges::find_if(
      reads_, [&](const Read& read) { return read.is_chunk && read.part.chunk == part.chunk; });
  if (found != reads_.end()) found->parts.push_back(part);
  return found != reads_.end();
}

void CachedSource::start_chunk(Part part, ChunkFetch fetch) {
  Read& read = reads_.emplace_back();
  read.part = part;
  read.is_chunk = true;
  read.fetch = std::move(fetch);
  if (!spare_.empty()) {
    read.memory = std::move(spare_.back());
    spare_.pop_back();
  }
  read.memory.resize(part.chunk.size_bytes);
  read.parts.push_back(part);
  fetch_bytes_ += part.chunk.size_bytes;
  start(std::prev(reads_.end()));
}

void CachedSource::start_direct(const Part& part) {
  reads_.emplace_back().part = part;
  cache_->count_pass(part.out.size());
  start(std::prev(reads_.end()));
}

void CachedSource::start(std::list<Read>::iterator read) {
  const Object& source = read->part.object->source();
  Request request = read->is_chunk ? request_of(source, read->part.chunk.offset_bytes, read->memory)
                                   : request_of(source, read->part.offset_bytes, read->part.out);
  request.tag = next_number_++;
  reads_in_flight_.emplace(request.tag, read);
  to_submit_.push_back(request);
}

/// Submits what the source has room for.
Status CachedSource::feed() {
  if (to_submit_.empty()) return {};
  STOKER_ASSIGN(const std::size_t count, source_->submit(to_submit_));
  to_submit_.erase(to_submit_.begin(), to_submit_.begin() + static_cast<std::ptrdiff_t>(count));
  return {};
}

/// Looks for chunks that others were fetching, and takes what waited for memory.
void CachedSource::look_again() {
  for (const Part& part : std::exchange(busy_, {})) take(part);
  if (!deferred_.empty() && fetch_bytes_ < kFetchBytesMax)
    for (const Part& part : std::exchange(deferred_, {})) take(part);
}

Result<std::size_t> CachedSource::reap(std::span<Completion> out, std::size_t count_min,
                                       nanoseconds timeout) {
  const Deadline deadline = deadline_after(timeout);
  for (;;) {
    look_again();
    STOKER_TRY(feed());
    STOKER_TRY(reap_disk(nanoseconds(0)));
    const bool is_enough = done_.size() >= std::min(count_min, out.size()) ||
                           done_.size() == in_flight_ || Clock::now() >= deadline;
    std::array<Completion, 16> came{};
    nanoseconds wait = is_enough ? nanoseconds(0) : time_left(deadline);
    if (!busy_.empty()) wait = std::min(wait, kLookEvery);
    if (engine_ && engine_->in_flight() > 0 && wait.count() > 0) {
      // The disk is faster than a source that is far away, which moves on between two looks.
      STOKER_TRY(reap_disk(source_->in_flight() > 0 ? std::min(wait, kLookEvery) : wait));
      wait = nanoseconds(0);
    }
    if (source_->in_flight() > 0) {
      STOKER_ASSIGN(const std::size_t count, source_->reap(came, wait.count() > 0 ? 1 : 0, wait));
      for (const Completion& each : std::span(came).first(count)) done(each);
      if (count > 0) continue;
    } else if (!is_enough && !busy_.empty() && wait.count() > 0) {
      std::this_thread::sleep_for(wait);
    }
    if (is_enough) break;
  }
  const std::size_t count = std::min(out.size(), done_.size());
  std::copy_n(done_.begin(), count, out.begin());
  done_.erase(done_.begin(), done_.begin() + static_cast<std::ptrdiff_t>(count));
  in_flight_ -= count;
  return count;
}

void CachedSource::done(const Completion& completion) {
  const auto found = reads_in_flight_.find(completion.tag);
  const std::list<Read>::iterator read = found->second;
  reads_in_flight_.erase(found);
  std::list<Read> ended;  // out of reads_: its parts may begin other reads
  ended.splice(ended.begin(), reads_, read);
  if (read->is_chunk) {
    chunk_done(*read, completion.result);
  } else {
    finish(read->part, completion.result, completion.failure);
  }
}

void CachedSource::chunk_done(Read& read, std::int64_t result) {
  const CachedObject& object = *read.part.object;
  fetch_bytes_ -= read.memory.size();
  // A file that was modified in place has other bytes than its version says.
  const Result<ObjectInfo> now = object.source().info_now();
  const bool is_whole =
      result == static_cast<std::int64_t>(read.memory.size()) && now.ok() && *now == object.info();
  if (!is_whole) {
    cache_->abandon(std::move(read.fetch));
    for (const Part& part : read.parts) start_direct(part);
    return;
  }
  cache_->commit(std::move(read.fetch), object.identity(), read.memory);
  for (const Part& part : read.parts) {
    const std::uint64_t inside = part.offset_bytes - part.chunk.offset_bytes;
    std::memcpy(part.out.data(), read.memory.data() + inside, part.out.size());
    finish(part, static_cast<std::int64_t>(part.out.size()));
  }
  constexpr std::size_t kSpareMax = 4;
  if (spare_.size() < kSpareMax) spare_.push_back(std::move(read.memory));
}

/// Ends a part; the last one ends its request. A part that is shorter than it should be fails it:
/// the object ends before its own size.
void CachedSource::finish(const Part& part, std::int64_t result, const Status& failure) {
  Job& job = *part.job;
  if (job.error == 0 && result < static_cast<std::int64_t>(part.out.size())) {
    job.error = result < 0 ? static_cast<int>(-result) : ESTALE;
    job.failure = failure;
    if (result >= 0)
      job.failure = {Status::from_errno(ESTALE, "read", "").code(),
                     "the object was replaced or removed since it was opened", ESTALE};
  }
  if (result > 0) job.bytes += result;
  if (--job.parts_left > 0) return;
  done_.push_back(
      {.tag = job.tag, .result = job.error != 0 ? -job.error : job.bytes, .failure = job.failure});
  std::erase_if(jobs_, [&](const Job& each) { return &each == &job; });
}

}  // namespace stoker::internal
