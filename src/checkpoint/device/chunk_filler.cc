#include "checkpoint/device/chunk_filler.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <new>
#include <optional>

#include "base/work_together.h"
#include "checkpoint/staging/tensor_copier.h"
#include "checkpoint/staging/tensor_copy.h"

namespace stoker {
namespace {

/// Of each thread. More than the link needs to be busy while a chunk is handed over.
constexpr std::size_t kInFlightMax = 16;

/// Joins a copy to the last one if it continues that in both memories, which must be one allocation
/// each: the driver refuses a copy that spans two, even if they are adjacent.
void add_copy(std::vector<DeviceCopy>& copies, const DeviceCopy& copy, bool may_join) {
  if (may_join && !copies.empty()) {
    DeviceCopy& last = copies.back();
    const bool is_next =
        last.from + last.size_bytes == copy.from && last.to + last.size_bytes == copy.to;
    if (is_next) {
      last.size_bytes += copy.size_bytes;
      return;
    }
  }
  copies.push_back(copy);
}

}  // namespace

ChunkFiller::ChunkFiller(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
                         std::span<const TensorSource> sources, Staging& staging, Deadline deadline)
    : layout_(layout),
      tensors_(tensors),
      sources_(sources),
      staging_(staging),
      deadline_(deadline) {
  for (const TensorSource& source : sources_)
    if (source.lane != nullptr && std::ranges::find(lanes_, source.lane) == lanes_.end())
      lanes_.push_back(source.lane);
}

/// Copies what is in host memory, and returns the copies that devices are to do.
ChunkFiller::LaneCopies ChunkFiller::collect(const Staging::Chunk& chunk, bool is_now) const {
  LaneCopies by_lane;
  const ChunkRef ref = layout_.chunks[chunk.index];
  const LayoutFile& file = layout_.files[ref.file];
  const std::uint64_t begin = ref.offset_bytes();
  const std::uint64_t end = begin + chunk.size_bytes;
  const std::span<std::byte> out = chunk.memory.first(chunk.size_bytes);
  if (!is_now) copy_header(file, begin, out);
  for (const PlacedTensor& placed : file.overlapping(begin, end)) {
    const TensorSource& source = sources_[placed.tensor];
    if (source.is_now != is_now) continue;
    const std::uint64_t from = std::max(begin, placed.begin_bytes);
    const std::uint64_t to = std::min(end, placed.end_bytes);
    const std::span<std::byte> place = out.subspan(from - begin, to - from);
    if (place.empty()) continue;
    if (source.lane == nullptr) {
      copy_tensor_bytes(tensors_[placed.tensor], from - placed.begin_bytes, place);
      continue;
    }
    auto found = std::ranges::find(by_lane, source.lane, &LaneCopies::value_type::first);
    if (found == by_lane.end()) found = by_lane.insert(found, {source.lane, {}});
    const auto* const data = source.data + (from - placed.begin_bytes);
    const bool is_of_snapshot = source.data != tensors_[placed.tensor].data;
    add_copy(found->second,
             {.from = reinterpret_cast<CudaPointer>(data),
              .to = place.data(),
              .size_bytes = place.size()},
             is_of_snapshot);
  }
  return by_lane;
}

Status ChunkFiller::enqueue(const Staging::Chunk& chunk, bool is_now,
                            std::deque<InFlight>& in_flight) {
  const LaneCopies by_lane = collect(chunk, is_now);
  if (by_lane.empty()) {
    if (!is_now) staging_.filled(chunk);
    return {};
  }
  InFlight one{.chunk = chunk, .events = {}};
  for (const auto& [lane, copies] : by_lane) {
    const CudaScope scope(*lane->device());
    STOKER_TRY(scope.status());
    STOKER_ASSIGN(std::unique_ptr<OwnedCudaEvent> event, lane->events().take());
    STOKER_TRY(lane->enqueue_to_host(copies));
    STOKER_TRY(event->record(lane->to_host()));
    one.events.emplace_back(lane, std::move(event));
  }
  in_flight.push_back(std::move(one));
  return {};
}

Status ChunkFiller::await_event(const OwnedCudaEvent& event) {
  const Status status = event.synchronize_until(deadline_);
  if (status.code() == Code::unavailable && Clock::now() >= deadline_)
    is_late_.store(true, std::memory_order_relaxed);
  return status;
}

Status ChunkFiller::await_oldest(std::deque<InFlight>& in_flight, bool hand_over) {
  InFlight& oldest = in_flight.front();
  for (auto& [lane, event] : oldest.events) {
    const CudaScope scope(*lane->device());
    STOKER_TRY(scope.status());
    STOKER_TRY(await_event(*event));
    lane->events().give_back(std::move(event));
  }
  if (hand_over) staging_.filled(oldest.chunk);
  in_flight.pop_front();
  return {};
}

/// One thread's part of fill_all(). It waits for memory only while it has nothing in flight: what
/// it has may be what the writer waits for.
Status ChunkFiller::work(std::deque<InFlight>& in_flight) {
  for (;;) {
    std::optional<Staging::Chunk> chunk;
    if (in_flight.empty())
      chunk = staging_.next_to_fill();
    else if (in_flight.size() < kInFlightMax)
      chunk = staging_.try_next_to_fill();
    if (chunk)
      STOKER_TRY(enqueue(*chunk, /*is_now=*/false, in_flight));
    else if (in_flight.empty())
      return {};
    else
      STOKER_TRY(await_oldest(in_flight, /*hand_over=*/true));
  }
}

Status ChunkFiller::fill_all(std::size_t thread_count) {
  work_together(std::min(thread_count, layout_.chunks.size()), [&] {
    Status status = no_memory_;
    {
      AwaitLanes unless_all_ended(lanes_, deadline_, &is_late_);
      try {
        std::deque<InFlight> in_flight;
        status = work(in_flight);
      } catch (const std::bad_alloc&) {  // NOLINT(bugprone-empty-catch): `status` says so
      }
      if (status.ok() || is_late()) unless_all_ended.dismiss();
    }
    if (!status.ok()) staging_.fail(status);
  });
  return staging_.status();
}

Status ChunkFiller::fill_now(std::size_t thread_count) {
  std::atomic<std::size_t> next = 0;  // relaxed: a counter
  Mutex mutex;
  Status failure;
  work_together(std::min(thread_count, layout_.chunks.size()), [&] {
    AwaitLanes unless_all_ended(lanes_, deadline_, &is_late_);
    Status status;
    try {
      std::deque<InFlight> in_flight;
      for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
           i < layout_.chunks.size() && status.ok();
           i = next.fetch_add(1, std::memory_order_relaxed)) {
        status = enqueue(staging_.at(i), /*is_now=*/true, in_flight);
        if (status.ok() && in_flight.size() >= kInFlightMax)
          status = await_oldest(in_flight, false);
      }
      while (status.ok() && !in_flight.empty()) status = await_oldest(in_flight, false);
    } catch (const std::bad_alloc&) {
      status = no_memory_;
    }
    if (status.ok() || is_late()) unless_all_ended.dismiss();
    if (status.ok()) return;
    MutexLock lock(mutex);
    if (failure.ok()) failure = std::move(status);
  });
  return failure;
}

}  // namespace stoker
