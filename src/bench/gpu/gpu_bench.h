#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "base/clock.h"
#include "bench/disk/disk_bench.h"
#include "bench/gpu/pcie_link.h"
#include "gpu/cuda_driver.h"
#include "gpu/direct_reads.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct GpuBenchOptions {
  static constexpr std::uint64_t kBytesMin = std::uint64_t{64} << 20;

  std::string path = ".";  ///< Where the file is written that is read to the device.
  int device = 0;
  std::vector<std::uint64_t> sizes = {1'000'000'000, 10'000'000'000, 100'000'000'000};
  std::uint64_t memory_bytes = 0;  ///< Available for the page cache; 0: what the kernel says.
  std::size_t threads = 0;         ///< That read the file; 0: the cores, up to 16.
  std::string sysfs = "/sys/bus/pci/devices";
  DirectReadTools direct = {};  ///< `find_driver` is not used.
};

/// One measurement. Without a time it was left out, and `why` says why.
struct GpuCase {
  std::string name = {};
  std::uint64_t bytes = 0;
  nanoseconds elapsed{0};
  std::string why = {};

  double bytes_per_s() const noexcept;
};

struct GpuReport {
  std::string path = {};
  int device = 0;
  std::string pci_id = {};
  int driver_version = 0;  ///< 13000 for CUDA 13.0.
  std::size_t threads = 0;
  PcieLinks links = {};
  std::vector<GpuCase> cases = {};
  DirectReads direct = {};  ///< Of files in `path`, by cuFile; they are not measured.
};

/// Measures, for each size: copies to and from the device, in pinned and in pageable memory; and a
/// file that is read and copied through a ring of pinned buffers, from the page cache and past it.
/// The last block of each thread is read back from the device and compared. Also probes whether
/// cuFile reads directly.
///
/// The file is removed before it returns. Fails with `invalid_argument` for invalid options,
/// `io_error` if the driver fails, and `cancelled` if `stop` is requested; a file for which disk or
/// memory has no room is left out.
Result<GpuReport> run_gpu_bench(const GpuBenchOptions& options, const CudaDriver& driver,
                                FileOps& ops, const ProgressSink& progress,
                                const std::stop_token& stop);

}  // namespace stoker
