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
  explicit Hasher(std::span<std::byte> memory) : memory_(memory) {}

  Result<Digest128> hash(const DeviceTensor& one) {
    const CudaScope scope(*one.lane->device());
    STOKER_TRY(scope.status());
    // The memory must not be used again before the copies into it have ended.
    AwaitLanes unless_all_ended({&one.lane, 1});
    const Result<Digest128> digest = hash_pieces(one);
    if (digest.ok()) unless_all_ended.dismiss();
    return digest;
  }

 private:
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
      STOKER_TRY(events[(i - 1) % 2]->synchronize());
      stream.update(piece(i - 1));
    }
    for (auto& event : events) one.lane->events().give_back(std::move(event));
    return stream.digest();
  }

  const std::span<std::byte> memory_;
};

}  // namespace

Result<std::vector<Digest128>> DeviceDigests::hash(std::span<const DeviceTensor> tensors) {
  std::vector<Digest128> found(tensors.size());
  if (tensors.empty()) return found;
  if (arena_ == nullptr) {
    STOKER_ASSIGN(arena_, memory_->maker()(2 * kPieceBytes * thread_count_));
  }
  memory_->pin(arena_->bytes(), tensors.front().lane->device());
  std::vector<Status> failures(tensors.size());
  const Status no_memory = Status::from_errno(ENOMEM, "hash the tensors of a checkpoint", "");
  std::atomic<std::size_t> next = 0;  // relaxed: counters
  std::atomic<std::size_t> next_thread = 0;
  work_together(std::min(thread_count_, tensors.size()), [&] {
    const std::size_t thread = next_thread.fetch_add(1, std::memory_order_relaxed);
    Hasher hasher(arena_->bytes().subspan(2 * kPieceBytes * thread, 2 * kPieceBytes));
    for (std::size_t i = next.fetch_add(1, std::memory_order_relaxed); i < tensors.size();
         i = next.fetch_add(1, std::memory_order_relaxed)) {
      try {
        Result<Digest128> digest = hasher.hash(tensors[i]);
        if (!digest.ok()) {
          failures[i] = digest.status().with_context("hash tensor " + tensors[i].tensor->name);
          return;
        }
        found[i] = *digest;
      } catch (const std::bad_alloc&) {
        failures[i] = no_memory;
        return;
      }
    }
  });
  for (const Status& failure : failures) STOKER_TRY(failure);
  return found;
}

}  // namespace stoker
