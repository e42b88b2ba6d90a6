#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "base/checksum.h"
#include "base/clock.h"
#include "checkpoint/device/device_lane.h"
#include "checkpoint/staging/layout.h"
#include "checkpoint/staging/tensor_copier.h"
#include "gpu/pinned_memory.h"
#include "stoker/status.h"

namespace stoker {

/// A tensor on a device, to be hashed.
struct DeviceTensor {
  DeviceLane* lane = nullptr;
  const SaveTensor* tensor = nullptr;
};

/// Hashes tensors that are on devices, on the host: pieces of each pass through pinned memory of a
/// few megabytes.
///
/// Thread safety: one call at a time.
class DeviceDigests {
 public:
  DeviceDigests(std::shared_ptr<PinnedMemory> memory, std::size_t thread_count)
      : memory_(std::move(memory)), thread_count_(thread_count) {}

  /// Returns the XXH3-128 of each. The copies follow what DeviceLane::to_host() has been given.
  /// Nothing reads the tensors after the return, unless it sets `late` (TensorCopier::digests()).
  Result<std::vector<Digest128>> hash(std::span<const DeviceTensor> tensors, Deadline deadline,
                                      CopyRest& late);

 private:
  CopyRest leave(const std::vector<DeviceLane*>& lanes);

  const std::shared_ptr<PinnedMemory> memory_;
  const std::size_t thread_count_;
  std::shared_ptr<Arena> arena_;  // made at the first use, and after a device was late
};

}  // namespace stoker
