#pragma once

#include <cstdint>
#include <functional>

#include "checkpoint/staging/tensor_copier.h"
#include "gpu/cuda_driver.h"

namespace stoker {

/// Returns a DeviceUse::snapshot_memory that allocates with the driver, for programs without an
/// allocator of their own: at most `most_bytes` on each device, and never more than half of what is
/// free there. It is freed when the snapshot has left the device. Nothing is lent if the driver
/// refuses. `driver` must outlive the saves.
std::function<DeviceMemory(std::int32_t device, std::uint64_t size_bytes)> make_driver_memory(
    const CudaDriver& driver, std::uint64_t most_bytes);

}  // namespace stoker
