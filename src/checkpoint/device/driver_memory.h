#pragma once

#include <cstdint>

#include "gpu/cuda_driver.h"
#include "stoker/device.h"

namespace stoker {

/// Returns a DeviceUse::snapshot_memory that allocates with the driver, for programs without an
/// allocator of their own: at most `most_bytes` on each device, and never more than half of what is
/// free there. It is freed when the snapshot has left the device. Nothing is lent if the driver
/// refuses. `driver` must outlive the saves.
LendMemory make_driver_memory(const CudaDriver& driver, std::uint64_t most_bytes);

}  // namespace stoker
