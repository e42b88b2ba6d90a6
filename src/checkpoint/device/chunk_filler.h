#pragma once

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "checkpoint/device/device_lane.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/staging.h"
#include "stoker/status.h"

namespace stoker {

/// Where the bytes of a tensor are.
struct TensorSource {
  DeviceLane* lane = nullptr;       ///< Null: in host memory, at SaveTensor::data.
  const std::byte* data = nullptr;  ///< On the device.
  /// Whether fill_now() has copied it, or will.
  bool is_now = false;
};

/// Fills the chunks of a save from host memory and from devices, with many copies in flight.
///
/// Thread safety: one call at a time. Everything is borrowed.
class ChunkFiller {
 public:
  /// `sources` has one entry for each of `tensors`.
  ChunkFiller(const CheckpointLayout& layout, std::span<const SaveTensor> tensors,
              std::span<const TensorSource> sources, Staging& staging, Deadline deadline);

  // Both wait for the devices if they fail, so that nothing writes to the chunks any more, unless
  // is_late().

  /// Copies the tensors with TensorSource::is_now to their places in an arena, and waits for them.
  Status fill_now(std::size_t thread_count);

  /// Fills all chunks as TensorCopier::copy() is asked to, except for the tensors with
  /// TensorSource::is_now. A chunk is handed over only after an event behind its copies has
  /// returned success.
  Status fill_all(std::size_t thread_count);

  /// Whether they have failed at the deadline: devices may still read the tensors, and write to the
  /// chunks.
  bool is_late() const noexcept { return is_late_.load(std::memory_order_relaxed); }
  /// The devices.
  const std::vector<DeviceLane*>& lanes() const noexcept { return lanes_; }

 private:
  using LaneCopies = std::vector<std::pair<DeviceLane*, std::vector<DeviceCopy>>>;
  struct InFlight {
    Staging::Chunk chunk;
    std::vector<std::pair<DeviceLane*, std::unique_ptr<OwnedCudaEvent>>> events;
  };

  LaneCopies collect(const Staging::Chunk& chunk, bool is_now) const;
  Status enqueue(const Staging::Chunk& chunk, bool is_now, std::deque<InFlight>& in_flight);
  Status await_event(const OwnedCudaEvent& event);
  Status await_oldest(std::deque<InFlight>& in_flight, bool hand_over);
  Status work(std::deque<InFlight>& in_flight);

  const CheckpointLayout& layout_;
  const std::span<const SaveTensor> tensors_;
  const std::span<const TensorSource> sources_;
  Staging& staging_;
  const Deadline deadline_;
  std::vector<DeviceLane*> lanes_;     // of the sources, each once
  std::atomic<bool> is_late_ = false;  // relaxed: read after the threads were joined
  const Status no_memory_ = Status::from_errno(ENOMEM, "copy a checkpoint", "");
};

}  // namespace stoker
