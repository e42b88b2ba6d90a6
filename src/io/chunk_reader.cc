#include "io/chunk_reader.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <deque>
#include <memory>
#include <new>
#include <thread>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/work_together.h"
#include "io/engine/arena.h"
#include "io/range_reader.h"

namespace stoker {
namespace {

constexpr std::size_t kThreadsMax = 16;
constexpr std::size_t kPageBytes = 4096;
/// The largest offset alignment that direct reads may require: the largest page size.
constexpr std::size_t kAlignBytesMax = std::size_t{64} << 10;
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
/// Up to this number of ranges, setting up an engine costs more than it gains.
constexpr std::size_t kFew = 2;
constexpr std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

/// The state shared by the threads of one call.
///
/// Thread safety: the methods may be called from any thread.
struct Shared {
  ChunkFiles& files;
  const std::span<const ChunkRead> reads;
  ChunkHandler& handler;
  const ChunkReadOptions& options;
  std::uint32_t depth = 0;     ///< Per thread.
  std::size_t slot_count = 0;  ///< Per thread.
  std::size_t slot_bytes = 0;  ///< Enough for the largest range, widened to any alignment.

  /// Returns the next range to read; reads.size() at the end, or after a thread has failed.
  std::size_t take() {
    if (has_failed.load(std::memory_order_relaxed)) return reads.size();
    return std::min(next.fetch_add(1, std::memory_order_relaxed), reads.size());
  }
  bool is_at_end() const {
    return has_failed.load(std::memory_order_relaxed) ||
           next.load(std::memory_order_relaxed) >= reads.size();
  }
  void fail(Status status) {
    const MutexLock lock(mutex);
    if (first_failure.ok()) first_failure = std::move(status);
    has_failed.store(true, std::memory_order_relaxed);
  }
  Status failure() {
    const MutexLock lock(mutex);
    return first_failure;
  }

  std::atomic<std::size_t> next{0};     // relaxed: only uniqueness matters
  std::atomic<bool> has_failed{false};  // relaxed: a hint; the mutex orders the status
  Mutex mutex{};
  Status first_failure STOKER_GUARDED_BY(mutex) = {};
};

/// The work of one thread: takes ranges and reads them into their destinations or into slots.
class Worker final : private RangeFeed {
 public:
  explicit Worker(Shared& shared) : shared_(shared), slots_(shared.slot_count) {
    for (std::size_t i = 0; i < slots_.size(); ++i) free_.push_back(i);
  }

  Status run() {
    STOKER_ASSIGN(std::unique_ptr<Engine> engine, make_engine_here());
    const std::size_t slot_bytes = shared_.slot_bytes;
    STOKER_ASSIGN(const std::unique_ptr<Arena> memory, make_memory(slots_.size() * slot_bytes));
    for (std::size_t i = 0; i < slots_.size(); ++i)
      slots_[i].memory = memory->bytes().subspan(i * slot_bytes, slot_bytes);
    RangeReader reader(std::move(engine));  // destroyed before the memory
    STOKER_TRY(reader.read(*this, {.check = [this] { return check(); }}));
    return failure_;
  }

 private:
  struct Slot {
    std::span<std::byte> memory;
    std::size_t index = 0;
    std::shared_ptr<const File> file = {};
  };

  /// Fresh memory is slow on virtual machines, but less slow in huge pages.
  Result<std::unique_ptr<Arena>> make_memory(std::size_t size_bytes) const {
    const bool is_large = shared_.slot_bytes >= kHugePageBytes;
    const std::size_t rounded = round_up(size_bytes, is_large ? kHugePageBytes : kPageBytes);
    if (shared_.options.arena) return shared_.options.arena(rounded);
    STOKER_ASSIGN(MappedArena made, MappedArena::map(rounded, is_large, /*touch=*/false));
    return std::unique_ptr<Arena>(std::make_unique<MappedArena>(std::move(made)));
  }

  /// Whether the next free slot may be written. Waits for it only if this thread has nothing in
  /// flight.
  Result<bool> has_slot() const {
    return shared_.handler.may_reuse(slots_[free_.front()].memory,
                                     /*wait=*/free_.size() == slots_.size());
  }

  Result<std::unique_ptr<Engine>> make_engine_here() const {
    if (shared_.options.engine) return shared_.options.engine();
    const EngineOptions options{.depth = shared_.depth};
    if (shared_.reads.size() <= kFew) return make_sync_engine(options);
    return make_engine(EngineKind::automatic, options);
  }

  Status check() const {
    if (shared_.options.stop.stop_requested())
      return Status(Code::cancelled, "stopped while reading a checkpoint");
    return failure_;
  }

  Next next(ReadPlan& plan) override {
    while (!free_.empty()) {
      if (!failure_.ok() || shared_.is_at_end()) return Next::end;
      const Result<bool> has = has_slot();
      if (!has.ok()) {
        failure_ = has.status();
        return Next::end;
      }
      if (!*has) return Next::later;
      const std::size_t index = shared_.take();
      if (index == shared_.reads.size()) return Next::end;
      Slot& slot = slots_[free_.front()];
      slot.index = index;
      const ChunkRead& read = shared_.reads[index];
      Result<ReadPlan> planned = plan_of(read, slot);
      if (!planned.ok()) {
        failure_ = shared_.handler.chunk_failed(index, where(planned.status(), read, slot));
        slot.file.reset();
        continue;
      }
      plan = *planned;
      plan.request.tag = free_.front();
      free_.pop_front();
      return Next::range;
    }
    return Next::later;
  }

  Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) override {
    Slot& slot = slots_[plan.request.tag];
    const ChunkRead& read = shared_.reads[slot.index];
    Status failure = bytes.status();
    // If the file ends early, its plan was truncated there and gives fewer bytes.
    if (failure.ok() && bytes->size() < read.size_bytes)
      failure = Status(Code::io_error, "the file ends before the end of the range");
    Status status = failure.ok()
                        ? shared_.handler.chunk_read(slot.index, *bytes)
                        : shared_.handler.chunk_failed(slot.index, where(failure, read, slot));
    if (failure.ok()) slot.file->settle(plan);
    slot.file.reset();
    // What a device may still read is reused last; what is only in the CPU's cache, first.
    if (shared_.options.arena)
      free_.push_back(plan.request.tag);
    else
      free_.push_front(plan.request.tag);
    return status;
  }

  /// Whether the range can be read directly into its destination.
  static bool fits(const File& file, const ChunkRead& read, IoPath path) {
    if (read.into.empty()) return false;
    if (path != IoPath::direct) return true;
    const DirectAlignment align = file.alignment();
    return read.offset_bytes % align.offset_bytes == 0 &&
           read.size_bytes % align.offset_bytes == 0 &&
           reinterpret_cast<std::uintptr_t>(read.into.data()) % align.memory_bytes == 0;
  }

  Result<ReadPlan> plan_of(const ChunkRead& read, Slot& slot) const {
    STOKER_ASSIGN(slot.file, shared_.files.get(read.file));
    const File& file = *slot.file;
    const std::size_t scratch_bytes = file.scratch_bytes(read.offset_bytes, read.size_bytes);
    if (scratch_bytes > slot.memory.size())
      return Status(Code::unsupported, "direct reads on this file need an alignment above 64 KiB");
    STOKER_ASSIGN(const IoPath path, file.read_path_for(read.offset_bytes, read.size_bytes));
    const std::span<std::byte> memory =
        fits(file, read, path) ? read.into : slot.memory.first(scratch_bytes);
    return file.plan_read(read.offset_bytes, read.size_bytes, memory, path);
  }

  /// Adds the place to an error. An error from opening the file already names it.
  static Status where(const Status& status, const ChunkRead& read, const Slot& slot) {
    if (slot.file == nullptr) return status;
    return status.with_context(slot.file->path() + ", offset " + std::to_string(read.offset_bytes) +
                               ", length " + std::to_string(read.size_bytes));
  }

  Shared& shared_;
  std::vector<Slot> slots_;
  std::deque<std::size_t> free_;  // in the order in which they are used
  Status failure_;                // returned by the handler for a range that could not be planned
};

void work(Shared& shared) {
  try {
    if (const Status status = Worker(shared).run(); !status.ok()) shared.fail(status);
  } catch (const std::bad_alloc&) {
    shared.fail(Status::from_errno(ENOMEM, "read a checkpoint", ""));
  }
}

}  // namespace

Status read_chunks(ChunkFiles& files, std::span<const ChunkRead> reads, ChunkHandler& handler,
                   const ChunkReadOptions& options) {
  if (reads.empty()) return {};
  if (options.depth == 0) return Status(Code::invalid_argument, "read_chunks: depth is 0");
  Shared shared{.files = files, .reads = reads, .handler = handler, .options = options};
  for (const ChunkRead& read : reads)
    shared.slot_bytes = std::max(shared.slot_bytes, read.size_bytes);
  shared.slot_bytes = round_up(shared.slot_bytes, kAlignBytesMax) + 2 * kAlignBytesMax;
  std::size_t thread_count = options.thread_count;
  if (thread_count == 0)
    thread_count = std::clamp<std::size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
  thread_count = std::min(thread_count, reads.size() <= kFew ? 1 : reads.size());
  shared.depth = std::min(options.depth, static_cast<std::uint32_t>(std::max<std::size_t>(
                                             1, options.in_flight_max / thread_count)));
  shared.slot_count = std::min<std::size_t>(shared.depth + options.spare, reads.size());
  work_together(thread_count, [&shared] { work(shared); });
  return shared.failure();
}

}  // namespace stoker
