#pragma once

#include <cstdint>
#include <stop_token>

#include "base/clock.h"
#include "bench/disk/block_order.h"
#include "io/engine/buffer_pool.h"
#include "io/engine/engine.h"
#include "io/files/file.h"
#include "io/mapped_file.h"
#include "stoker/histogram.h"

namespace stoker {

/// A stream of requests of equal size over one range of a file, at a constant queue depth.
struct Workload {
  static constexpr std::uint64_t kSeed = 42;  ///< Fixed, so that runs are comparable.

  Op op = Op::read;  ///< `read` or `write`.
  Pattern pattern = Pattern::sequential;
  std::uint64_t offset_bytes = 0;  ///< Start of the range: a multiple of 4096.
  std::uint64_t range_bytes = 0;   ///< An incomplete last block is left out.
  std::uint32_t block_bytes = 4096;
  std::uint32_t depth = 1;          ///< Limited to what the engine supports.
  nanoseconds time_max = kForever;  ///< No request starts later; those in flight still count.
  bool repeat = false;              ///< Reads the range again until `time_max`. Reads only.
  bool preallocate = false;         ///< Writes only; part of the measured time.
};

struct Measurement {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  nanoseconds elapsed{0};          ///< For writes, including fdatasync.
  HistogramSnapshot latency = {};  ///< Per request, from submission to reaping.
  IoPath path = IoPath::buffered;  ///< Of the last request.

  double bytes_per_s() const noexcept { return per_second(static_cast<double>(bytes)); }
  double count_per_s() const noexcept { return per_second(static_cast<double>(count)); }

 private:
  double per_second(double amount) const noexcept {
    return elapsed.count() <= 0 ? 0 : amount * 1e9 / static_cast<double>(elapsed.count());
  }
};

/// Runs `workload` and measures it. Buffers come from `pool`, are filled before the clock starts,
/// and are reused for every request. Writes end with File::finish(), which truncates the file to
/// the bytes written and makes it durable. Nothing is in flight on return, with or without an
/// error.
///
/// Fails with `cancelled` if `stop` is requested, `invalid_argument` if the range is shorter than a
/// block or the pool too small, and with the errors of the device.
Result<Measurement> run_workload(Engine& engine, File& file, BufferPool& pool,
                                 const Workload& workload, const std::stop_token& stop);

/// Runs `workload` on a mapping: copies each block into one buffer, as read(2) would. Depth 1,
/// reads only, without an engine. A device that fails under a mapping ends the process with SIGBUS.
Result<Measurement> run_mapped_workload(const MappedFile& file, BufferPool& pool,
                                        const Workload& workload, const std::stop_token& stop);

}  // namespace stoker
