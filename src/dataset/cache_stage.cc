#include "dataset/cache_stage.h"

#include <algorithm>
#include <array>
#include <memory>
#include <span>

#include "dataset/shard_cache/cached_store.h"
#include "dataset/shards/shard_files.h"
#include "store/object_reader.h"
#include "store/open_object.h"

namespace stoker {
namespace {

constexpr std::uint32_t kAtATime = 16;

/// Reads one byte of each unit of a shard, which brings the whole unit.
class ShardStage {
 public:
  /// `memory` has kAtATime bytes, which nobody looks at.
  ShardStage(RangeSource& source, const Object& object, std::span<std::byte> memory)
      : source_(source),
        object_(static_cast<const internal::CachedObject&>(object)),
        memory_(memory) {}

  /// Submits units until `room_bytes` are used up or enough are in flight, and waits for one.
  Result<std::uint64_t> step(std::uint64_t room_bytes) {
    const std::uint64_t size = object_.info().size_bytes;
    while (at_ < size && source_.in_flight() < kAtATime) {
      const ChunkId chunk = object_.chunk_at(at_);
      if (begun_ + chunk.size_bytes > room_bytes) {
        is_full_ = true;
        break;
      }
      Request request = request_of(object_, at_, memory_.subspan(at_ % kAtATime, 1));
      request.tag = chunk.size_bytes;
      STOKER_ASSIGN(const std::size_t taken, source_.submit(std::span(&request, 1)));
      if (taken == 0) break;
      at_ = chunk.offset_bytes + chunk.size_bytes;
      begun_ += chunk.size_bytes;
    }
    std::array<Completion, kAtATime> done{};
    STOKER_ASSIGN(const std::size_t count, source_.reap(done, 1, std::chrono::milliseconds(50)));
    std::uint64_t bytes = 0;
    for (const Completion& each : std::span(done).first(count)) {
      if (each.result < 0) return failure_of(each, object_.key());
      bytes += each.tag;
    }
    return bytes;
  }
  bool is_done() const {
    return source_.in_flight() == 0 && (is_full_ || at_ >= object_.info().size_bytes);
  }
  bool is_full() const { return is_full_; }

 private:
  RangeSource& source_;
  const internal::CachedObject& object_;
  const std::span<std::byte> memory_;
  std::uint64_t at_ = 0;
  std::uint64_t begun_ = 0;
  bool is_full_ = false;
};

}  // namespace

Result<StageReport> stage_shards(const ShardDataset& dataset, const StageOptions& options) {
  if (!dataset.cache())
    return Status(Code::invalid_argument, "this dataset has no cache to be staged to");
  STOKER_TRY(dataset.cache()->trouble());
  const std::uint64_t limit = dataset.cache()->options().size_bytes;
  const std::uint64_t fetched_before = dataset.cache()->stats().fetched_bytes;
  StageReport report{.dataset_bytes = dataset.cache_units()->dataset_bytes()};
  // The files have heads, one for each unit.
  const std::uint64_t room =
      limit - limit / (kChunkBlockBytes / kChunkHeadBytes) - ChunkId::kSizeMax;
  const std::uint64_t wanted = std::min(report.dataset_bytes, room);
  // The source is destroyed first, which waits for what it reads of these.
  std::array<std::byte, kAtATime> memory{};
  std::shared_ptr<const Object> object;
  STOKER_ASSIGN(const std::unique_ptr<RangeSource> source,
                open_source(dataset.sample_store(), kAtATime));
  for (std::size_t i = 0; i < dataset.source().shards().size(); ++i) {
    STOKER_ASSIGN(object, dataset.lend_shard(i));
    ShardStage shard(*source, *object, memory);
    const std::uint64_t room_left = room - report.staged_bytes;
    while (!shard.is_done()) {
      if (options.stop.stop_requested()) return Status(Code::cancelled, "interrupted");
      STOKER_ASSIGN(const std::uint64_t bytes, shard.step(room_left));
      report.staged_bytes += bytes;
      if (options.progress) options.progress({report.staged_bytes, wanted});
    }
    STOKER_TRY(dataset.cache()->trouble());
    if (shard.is_full()) break;
  }
  report.fetched_bytes = dataset.cache()->stats().fetched_bytes - fetched_before;
  return report;
}

}  // namespace stoker
