#include "checkpoint/device/driver_memory.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "gpu/cuda_device.h"

namespace stoker {
namespace {

/// Memory of a device, freed by the destructor.
///
/// Thread safety: immutable.
class DriverBlock {
 public:
  DriverBlock(std::shared_ptr<const CudaDevice> device, CudaPointer memory)
      : device_(std::move(device)), memory_(memory) {}
  DriverBlock(const DriverBlock&) = delete;
  DriverBlock& operator=(const DriverBlock&) = delete;
  ~DriverBlock() {
    if (!guard_.is_here()) return;
    const CudaScope scope(*device_);
    if (scope.status().ok()) static_cast<void>(device_->driver().mem_free(memory_));
  }

 private:
  const std::shared_ptr<const CudaDevice> device_;
  const CudaPointer memory_;
  const ForkGuard guard_;
};

}  // namespace

LendMemory make_driver_memory(const CudaDriver& driver, std::uint64_t most_bytes) {
  return [&driver, most_bytes](std::int32_t ordinal, std::uint64_t size_bytes) -> DeviceMemory {
    const auto device = CudaDevice::retain(driver, ordinal);
    if (!device.ok()) return {};
    const CudaScope scope(**device);
    std::size_t free_bytes = 0;
    std::size_t total_bytes = 0;
    if (!scope.status().ok() || driver.mem_get_info(&free_bytes, &total_bytes) != kCudaSuccess)
      return {};
    const std::uint64_t granted =
        std::min({size_bytes, most_bytes, static_cast<std::uint64_t>(free_bytes / 2)});
    CudaPointer memory = 0;
    if (granted == 0 || driver.mem_alloc(&memory, granted) != kCudaSuccess) return {};
    return {.data = reinterpret_cast<std::byte*>(memory),  // NOLINT(performance-no-int-to-ptr)
            .size_bytes = granted,
            .owner = std::make_shared<DriverBlock>(*device, memory)};
  };
}

}  // namespace stoker
