#include "dataset/fetch/fetch_delivery.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <new>

#include "io/engine/buffer_pool.h"

namespace stoker {
namespace {

using Way = FetchPlan::Way;

/// Memory for rereading the records of a merged read that failed.
struct FreeAligned {
  void operator()(std::byte* memory) const {
    ::operator delete(memory, std::align_val_t{BufferPool::kAlignBytes});
  }
};
using AlignedMemory = std::unique_ptr<std::byte, FreeAligned>;

AlignedMemory make_aligned(std::size_t size_bytes) {
  constexpr std::align_val_t kAlign{BufferPool::kAlignBytes};
  return AlignedMemory(static_cast<std::byte*>(::operator new(size_bytes, kAlign)));
}

/// Stores the result of a single run.
class OneRun final : public RunSink {
 public:
  void run_done(const FetchPlan::Run& /*run*/, std::span<std::byte> read) override { bytes = read; }
  void run_failed(const FetchPlan::Run& /*run*/, const Status& why) override { status = why; }

  std::span<std::byte> bytes;
  Status status;
};

}  // namespace

Status FetchDelivery::read(const FetchPlan& plan, const Target& target,
                           const std::stop_token& stop) {
  plan_ = &plan;
  target_ = target;
  failed_runs_.clear();
  counters_.record_count.add(plan.items_.size() + plan.failures_.size());
  for (const FetchPlan::Failure& failure : plan.failures_) fail(failure.out, failure.status);
  // Reads from the device come first; decompression keeps this thread busy for long.
  STOKER_TRY(reader_.read(plan.runs_, {.memory = target_.memory, .packed = packed()}, *this, stop));
  for (const Run& run : plan.runs_) {
    if (run.way != Way::inflated) continue;
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while reading samples");
    copy_inflated(run);
  }
  for (const Run* run : failed_runs_) STOKER_TRY(isolate(*run, stop));
  return {};
}

void FetchDelivery::copy_inflated(const Run& run) {
  const Result<InflatedCache::Bytes> plain = shards_.dataset(run.dataset).inflate_shard(run.shard);
  if (!plain.ok() || run.offset_bytes + run.size_bytes > (*plain)->size()) {
    const Status status =
        plain.ok() ? Status(Code::corrupt, "the record is outside its shard") : plain.status();
    for (const Item& item : items_of(run)) fail(run, item, status);
    return;
  }
  const std::span<std::byte> room = packed().subspan(run.room_at, run.size_bytes);
  if (!room.empty()) std::memcpy(room.data(), (*plain)->data() + run.offset_bytes, room.size());
  counters_.inflated_bytes.add(room.size());
  run_done(run, room);
}

void FetchDelivery::run_done(const Run& run, std::span<std::byte> bytes) {
  for (const Item& item : items_of(run))
    deliver(run, item, bytes.subspan(item.offset_bytes - run.offset_bytes, item.size_bytes));
}

void FetchDelivery::run_failed(const Run& run, const Status& status) {
  const std::span<const Item> items = items_of(run);
  const bool is_one = std::ranges::all_of(items, [&](const Item& item) {
    return item.offset_bytes == run.offset_bytes && item.size_bytes == run.size_bytes;
  });
  if (!is_one) return failed_runs_.push_back(&run);
  for (const Item& item : items) fail(run, item, status);
}

/// Reads the records of a merged run one by one, so that a bad block fails one record and not its
/// neighbors.
Status FetchDelivery::isolate(const Run& run, const std::stop_token& stop) {
  for (const Item& item : items_of(run)) STOKER_TRY(read_alone(run, item, stop));
  return {};
}

/// Reads into separate memory: a failed read may overwrite blocks that neighbors share.
Status FetchDelivery::read_alone(const Run& run, const Item& item, const std::stop_token& stop) {
  const Result<OpenShard> shard = shards_.open(run.dataset, run.shard);
  if (!shard.ok()) {
    fail(run, item, shard.status());
    return {};
  }
  Run alone = run;
  alone.offset_bytes = item.offset_bytes;
  alone.size_bytes = item.size_bytes;
  alone.room_at = 0;
  alone.skip_bytes = 0;
  if (run.path == IoPath::direct)
    alone.skip_bytes =
        static_cast<std::uint32_t>(item.offset_bytes % shard->file->alignment().offset_bytes);
  const std::size_t size = shard->object->scratch_bytes(item.offset_bytes, item.size_bytes);
  const AlignedMemory memory = make_aligned(size);
  const std::span<std::byte> room(memory.get(), size);
  OneRun one;
  STOKER_TRY(reader_.read({&alone, 1}, {.memory = room, .packed = room}, one, stop));
  if (!one.status.ok()) {
    fail(run, item, one.status);
    return {};
  }
  const std::uint64_t at = item.offset_bytes - run.offset_bytes + run.skip_bytes + run.room_at;
  const std::span<std::byte> place =
      (FetchPlan::is_batched(run.way) ? target_.memory : packed()).subspan(at, item.size_bytes);
  std::ranges::copy(one.bytes, place.begin());
  deliver(run, item, place);
  return {};
}

void FetchDelivery::deliver(const Run& run, const Item& item, std::span<const std::byte> bytes) {
  if (checksums_ && item.is_checked) {
    const Status status = shards_.dataset(run.dataset)
                              .check_record({.shard = run.shard,
                                             .record = {item.offset_bytes, item.size_bytes},
                                             .crc32c = item.crc32c},
                                            bytes);
    if (!status.ok()) return fail(run, item, status);
    counters_.checked_bytes.add(bytes.size());
  }
  counters_.record_bytes.add(bytes.size());
  if (plan_->is_rows_) {
    if (FetchPlan::is_batched(run.way))
      std::memcpy(target_.rows.data() + item.row_at, bytes.data(), bytes.size());
    return;
  }
  FetchedRecord& record = target_.records[item.out];
  record.bytes = bytes;
  record.offset_bytes = item.offset_bytes;
  record.shard = run.shard;
  record.status = {};
}

void FetchDelivery::fail(const Run& run, const Item& item, const Status& status) {
  const Dataset& dataset = shards_.dataset(run.dataset);
  if (!plan_->is_rows_) return fail(item.out, status.with_context(dataset.describe(item.sample)));
  fail(item.out, status.with_context(dataset.source().shards()[run.shard].path + ": " +
                                     std::to_string(item.size_bytes) + " bytes at byte " +
                                     std::to_string(item.offset_bytes)));
}

void FetchDelivery::fail(std::uint32_t out, const Status& status) {
  counters_.failure_count.add();
  if (!plan_->is_rows_) {
    target_.records[out] = {.status = status};
  } else if (target_.row_status[out].ok()) {
    target_.row_status[out] = status;
  }
}

}  // namespace stoker
