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

/// Stores the result of a single stretch.
class OneStretch final : public StretchSink {
 public:
  void stretch_done(const FetchPlan::Stretch& /*stretch*/, std::span<std::byte> read) override {
    bytes = read;
  }
  void stretch_failed(const FetchPlan::Stretch& /*stretch*/, const Status& why) override {
    status = why;
  }

  std::span<std::byte> bytes;
  Status status;
};

}  // namespace

Status FetchDelivery::read(const FetchPlan& plan, const Target& target,
                           const std::stop_token& stop) {
  plan_ = &plan;
  target_ = target;
  failed_stretches_.clear();
  counters_.record_count.add(plan.items_.size() + plan.failures_.size());
  for (const FetchPlan::Failure& failure : plan.failures_) fail(failure.out, failure.status);
  // Reads from the device come first; decompression keeps this thread busy for long.
  STOKER_TRY(
      reader_.read(plan.stretches_, {.memory = target_.memory, .packed = packed()}, *this, stop));
  for (const Stretch& stretch : plan.stretches_) {
    if (stretch.way != Way::inflated) continue;
    if (stop.stop_requested()) return Status(Code::cancelled, "stopped while reading samples");
    copy_inflated(stretch);
  }
  for (const Stretch* stretch : failed_stretches_) STOKER_TRY(isolate(*stretch, stop));
  return {};
}

void FetchDelivery::copy_inflated(const Stretch& stretch) {
  const Result<InflatedCache::Bytes> plain =
      shards_.dataset(stretch.dataset).inflate_shard(stretch.shard);
  if (!plain.ok() || stretch.offset_bytes + stretch.size_bytes > (*plain)->size()) {
    const Status status =
        plain.ok() ? Status(Code::corrupt, "the record is outside its shard") : plain.status();
    for (const Item& item : items_of(stretch)) fail(stretch, item, status);
    return;
  }
  const std::span<std::byte> room = packed().subspan(stretch.room_at, stretch.size_bytes);
  if (!room.empty()) std::memcpy(room.data(), (*plain)->data() + stretch.offset_bytes, room.size());
  counters_.inflated_bytes.add(room.size());
  stretch_done(stretch, room);
}

void FetchDelivery::stretch_done(const Stretch& stretch, std::span<std::byte> bytes) {
  for (const Item& item : items_of(stretch))
    deliver(stretch, item,
            bytes.subspan(item.offset_bytes - stretch.offset_bytes, item.size_bytes));
}

void FetchDelivery::stretch_failed(const Stretch& stretch, const Status& status) {
  const std::span<const Item> items = items_of(stretch);
  const bool is_one = std::ranges::all_of(items, [&](const Item& item) {
    return item.offset_bytes == stretch.offset_bytes && item.size_bytes == stretch.size_bytes;
  });
  if (!is_one) return failed_stretches_.push_back(&stretch);
  for (const Item& item : items) fail(stretch, item, status);
}

/// Reads the records of a merged stretch one by one, so that a bad block fails one record and not
/// its neighbors.
Status FetchDelivery::isolate(const Stretch& stretch, const std::stop_token& stop) {
  for (const Item& item : items_of(stretch)) STOKER_TRY(read_alone(stretch, item, stop));
  return {};
}

/// Reads into separate memory: a failed read may overwrite blocks that neighbors share.
Status FetchDelivery::read_alone(const Stretch& stretch, const Item& item,
                                 const std::stop_token& stop) {
  const Result<OpenShard> shard = shards_.open(stretch.dataset, stretch.shard);
  if (!shard.ok()) {
    fail(stretch, item, shard.status());
    return {};
  }
  Stretch alone = stretch;
  alone.offset_bytes = item.offset_bytes;
  alone.size_bytes = item.size_bytes;
  alone.room_at = 0;
  alone.skip_bytes = 0;
  if (stretch.path == IoPath::direct)
    alone.skip_bytes =
        static_cast<std::uint32_t>(item.offset_bytes % shard->file->alignment().offset_bytes);
  const std::size_t size = shard->object->scratch_bytes(item.offset_bytes, item.size_bytes);
  const AlignedMemory memory = make_aligned(size);
  const std::span<std::byte> room(memory.get(), size);
  OneStretch one;
  STOKER_TRY(reader_.read({&alone, 1}, {.memory = room, .packed = room}, one, stop));
  if (!one.status.ok()) {
    fail(stretch, item, one.status);
    return {};
  }
  const std::uint64_t at =
      item.offset_bytes - stretch.offset_bytes + stretch.skip_bytes + stretch.room_at;
  const std::span<std::byte> place =
      (FetchPlan::is_batched(stretch.way) ? target_.memory : packed()).subspan(at, item.size_bytes);
  std::ranges::copy(one.bytes, place.begin());
  deliver(stretch, item, place);
  return {};
}

void FetchDelivery::deliver(const Stretch& stretch, const Item& item,
                            std::span<const std::byte> bytes) {
  if (checksums_ && item.is_checked) {
    const Status status = shards_.dataset(stretch.dataset)
                              .check_record({.shard = stretch.shard,
                                             .record = {item.offset_bytes, item.size_bytes},
                                             .crc32c = item.crc32c},
                                            bytes);
    if (!status.ok()) return fail(stretch, item, status);
    counters_.checked_bytes.add(bytes.size());
  }
  counters_.record_bytes.add(bytes.size());
  if (plan_->is_rows_) {
    if (FetchPlan::is_batched(stretch.way))
      std::memcpy(target_.rows.data() + item.row_at, bytes.data(), bytes.size());
    return;
  }
  FetchedRecord& record = target_.records[item.out];
  record.bytes = bytes;
  record.offset_bytes = item.offset_bytes;
  record.shard = stretch.shard;
  record.status = {};
}

void FetchDelivery::fail(const Stretch& stretch, const Item& item, const Status& status) {
  const ShardDataset& dataset = shards_.dataset(stretch.dataset);
  if (!plan_->is_rows_) return fail(item.out, status.with_context(dataset.describe(item.sample)));
  fail(item.out, status.with_context(dataset.source().shards()[stretch.shard].path + ": " +
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
