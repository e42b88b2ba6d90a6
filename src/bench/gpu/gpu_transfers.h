#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stop_token>

#include "base/clock.h"
#include "gpu/cuda_device.h"
#include "stoker/status.h"

namespace stoker {

/// Memory on a device. The destructor frees it.
///
/// Thread safety: immutable.
class DeviceMemory {
 public:
  static Result<std::unique_ptr<DeviceMemory>> make(std::shared_ptr<const CudaDevice> device,
                                                    std::size_t size_bytes);
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  ~DeviceMemory();

  CudaPointer get() const noexcept { return memory_; }

 private:
  DeviceMemory(std::shared_ptr<const CudaDevice> device, CudaPointer memory)
      : device_(std::move(device)), memory_(memory) {}
  const std::shared_ptr<const CudaDevice> device_;
  const CudaPointer memory_;
};

enum class GpuDirection : std::uint8_t { to_device, to_host };

/// Copies `total_bytes` between `host` and a device, in blocks of the length of `host`, and returns
/// how long that took.
Result<nanoseconds> time_copies(const std::shared_ptr<const CudaDevice>& device,
                                GpuDirection direction, std::span<std::byte> host,
                                std::uint64_t total_bytes, const std::stop_token& stop);

/// Reads the first `total_bytes` of an open file with `threads` threads and copies them to the
/// device, each thread through two blocks of `ring`, which is pinned. The device keeps the last
/// block of each thread, which is compared with what the file has: `corrupt` if it differs.
Result<nanoseconds> time_reads(const std::shared_ptr<const CudaDevice>& device, int fd,
                               std::span<std::byte> ring, std::uint64_t total_bytes,
                               std::size_t threads, const std::stop_token& stop);

}  // namespace stoker
