#include "stoker/device.h"

#include <utility>

#include "api/border.h"
#include "checkpoint/device/driver_memory.h"
#include "gpu/cuda_driver.h"
#include "gpu/direct_reads.h"
#include "stoker/probe.h"
#include "stoker/tensor.h"

namespace stoker {

TensorView device_tensor(TensorType type, std::vector<std::uint64_t> shape, std::int32_t device,
                         std::uintptr_t address) {
  const Result<std::uint64_t> size_bytes = tensor_bytes(type, shape);
  auto* const data = reinterpret_cast<std::byte*>(address);  // NOLINT(performance-no-int-to-ptr)
  return {.type = type,
          .shape = std::move(shape),
          .memory = {data, size_bytes.ok() ? static_cast<std::size_t>(*size_bytes) : 0},
          .device = device};
}

Status check_devices() {
  return internal::at_border([] { return CudaDriver::find().status(); });
}

Result<LendMemory> make_snapshot_memory(std::uint64_t most_bytes) {
  return internal::at_border([&]() -> Result<LendMemory> {
    STOKER_ASSIGN(const CudaDriver* const driver, CudaDriver::find());
    return make_driver_memory(*driver, most_bytes);
  });
}

Result<DirectReads> gpu_direct_reads(const std::string& directory, std::int32_t device) {
  return internal::at_border(
      [&]() -> Result<DirectReads> { return probe_direct_reads(directory, device); });
}

}  // namespace stoker
