#include "checkpoint/device/device_digests.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <new>
#include <utility>

#include "base/work_together.h"

namespace stoker {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;

/// One thread's memory: a piece is copied into one half while the other is hashed.
class Hasher {
 public:
  Hasher(std::span<std::byte> memory, Deadline deadline) : memory_(memory), deadline_(deadline) {}

  Result<Digest128> hash(const DeviceTensor& one) {
    const CudaScope scope(*one.lane->device());
    STOKER_TRY(scope.status());
    // The memory must not be used again before the copies into it have ended.
    AwaitLanes unless_all_ended({&one.lane, 1}, deadline_, &is_late_);
    Result<Digest128> digest = hash_pieces(one);
    if (digest.ok() || is_late()) unless_all_ended.dismiss();
    return digest;
  }

  /// Whether hash() has failed at the deadline: the device may still write to the memory.
  bool is_late() const noexcept { return is_late_.load(std::memory_order_relaxed); }

 private:
  Status await(const OwnedCudaEvent& event) {
    const Status status = event.synchronize_until(deadline_);
    if (status.code() == Code::unavailable && Clock::now() >= deadline_)
      is_late_.store(true, std::memory_order_relaxed);
    return status;
  }

  Result<Digest128> hash_pieces(const DeviceTensor& one) {
    STOKER_ASSIGN(const std::uint64_t size_bytes,
                  tensor_bytes(one.tensor->type, one.tensor->shape));
    std::array<std::unique_ptr<OwnedCudaEvent>, 2> events;
    for (auto& event : events) {
      STOKER_ASSIGN(event, one.lane->events().take());
    }
    const auto piece = [&](std::uint64_t number) {
      const std::uint64_t size = std::min(kPieceBytes, size_bytes - number * kPieceBytes);
      return memory_.subspan(number % 2 * kPieceBytes, size);
    };
    const std::uint64_t count = (size_bytes + kPieceBytes - 1) / kPieceBytes;
    Xxh3Stream stream;
    for (std::uint64_t i = 0; i <= count; ++i) {
      if (i < count) {
        const std::span<std::byte> to = piece(i);
        const DeviceCopy copy{
            .from = reinterpret_cast<CudaPointer>(one.tensor->data + i * kPieceBytes),
            .to = to.data(),
            .size_bytes = to.size()};
        STOKER_TRY(one.lane->enqueue_to_host({&copy, 1}));
        STOKER_TRY(events[i % 2]->record(one.lane->to_host()));
      }
      if (i == 0) continue;
      STOKER_TRY(await(*events[(i - 1) % 2]));
      stream.update(piece(i - 1));
    }
    for (auto& event : events) one.lane->events().give_back(std::move(event));
    return stream.digest();
  }

  const std::span<std::byte> memory_;
  const Deadline deadline_;
  std::atomic<bool> is_late_ = false;  // relaxed: used by one thread
};

}  // namespace

/// Returns what waits for the devices, and keeps the memory until then. The next call uses other
/// memory.
CopyRest DeviceDigests::leave(const std::vector<DeviceLane*>& lanes) {
  AwaitLanes unless_left(lanes);
  CopyRest rest = [arena = arena_, lanes]() -> Status {
    const AwaitLanes all(lanes);
    return {};
  };
  unless_left.dismiss();
  arena_ = nullptr;
  return rest;
}

Result<std::vector<Digest128>> DeviceDigests::hash(std::span<const DeviceTensor> tensors,
                                                   Deadline deadline, CopyRest& late) {
  std::vector<Digest128> found(tensors.size());
  if (tensors.empty()) return found;
  if (arena_ == nullptr) {
    STOKER_ASSIGN(arena_, memory_->maker()(2 * kPieceBytes * thread_count_));
  }
  const bool is_pinned = memory_->pin(arena_->bytes(), tensors.front().lane->device());
  std::vector<DeviceLane*> lanes;
  for (const DeviceTensor& one : tensors)
    if (std::ranges::find(lanes, one.lane) == lanes.end()) lanes.push_back(one.lane);
  for (const DeviceLane* const lane : lanes) {
    if (is_pinned) break;
    const CudaScope scope(*lane->device());
    STOKER_TRY(scope.status());
    STOKER_TRY(lane->await_work(deadline));
  }
  std::vector<Status> failures(tensors.size());
  const Status no_memory = Status::from_errno(ENOMEM, "hash the tensors of a checkpoint", "");
  std::atomic<std::size_t> next = 0;  // relaxed: counters
  std::atomic<std::size_t> next_thread = 0;
  std::atomic<bool> is_late = false;  // read after the threads were joined
  work_together(std::min(thread_count_, tensors.size()), [&] {
    const std::size_t thread = next_thread.fetch_add(1, std::memory_order_relaxed);
    Hasher hasher(arena_->bytes().subspan(2 * kPieceBytes * thread, 2 * kPieceBytes), deadline);
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < tensors.size();
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      try {
        Result<Digest128> digest = hasher.hash(tensors[i]);
        if (!digest.ok()) {
          if (hasher.is_late()) is_late.store(true, std::memory_order_relaxed);
          failures[i] = digest.status().with_context("hash tensor " + tensors[i].tensor->name);
          return;
        }
        found[i] = *digest;
      } catch (const std::bad_alloc&) {
        if (hasher.is_late()) is_late.store(true, std::memory_order_relaxed);
        failures[i] = no_memory;
        return;
      }
    }
  });
  if (is_late.load(std::memory_order_relaxed)) late = leave(lanes);
  for (const Status& failure : failures) STOKER_TRY(failure);
  return found;
}

}  // namespace stoker
