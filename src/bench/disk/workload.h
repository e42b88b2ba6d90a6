#pragma once

#include <cstdint>
#include <stop_token>

#include "base/clock.h"
#include "base/histogram.h"
#include "bench/disk/block_order.h"
#include "io/engine/buffer_pool.h"
#include "io/engine/engine.h"
#include "io/files/file.h"
#include "io/mapped_file.h"

namespace stoker {

/// A stream of equal requests over one range of a file, kept at a queue depth.
struct Workload {
  static constexpr std::uint64_t kSeed = 42;  ///< Fixed: runs must be comparable.

  Op op = Op::read;  ///< `read` or `write`.
  Pattern pattern = Pattern::sequential;
  std::uint64_t offset_bytes = 0;  ///< Where the range starts: a multiple of 4096.
  std::uint64_t range_bytes = 0;   ///< A last block that would be cut short is left out.
  std::uint32_t block_bytes = 4096;
  std::uint32_t depth = 1;          ///< Cut to what the engine takes.
  nanoseconds time_max = kForever;  ///< After it no request is issued; those in flight still count.
  bool repeat = false;              ///< Goes through the range again until `time_max`. Reads only.
  bool preallocate = false;         ///< Writes only; inside the time.
};

struct Measurement {
  std::uint64_t bytes = 0;
  std::uint64_t count = 0;
  nanoseconds elapsed{0};          ///< For writes, up to the end of fdatasync.
  HistogramSnapshot latency = {};  ///< Of single requests, from submission to reaping.
  IoPath path = IoPath::buffered;  ///< The one the last request took.

  double bytes_per_s() const noexcept { return per_second(static_cast<double>(bytes)); }
  double count_per_s() const noexcept { return per_second(static_cast<double>(count)); }

 private:
  double per_second(double amount) const noexcept {
    return elapsed.count() <= 0 ? 0 : amount * 1e9 / static_cast<double>(elapsed.count());
  }
};

/// Runs `workload` and measures it. Buffers come from `pool`, are filled before the clock starts,
/// and are reused for every request. Writes end with File::finish: truncated to what was written,
/// and durable. Nothing is in flight on return, whatever happened.
///
/// Fails with `cancelled` when `stop` fires, `invalid_argument` if the range holds no block or the
/// pool no buffers, and with what the device said.
Result<Measurement> run_workload(Engine& engine, File& file, BufferPool& pool,
                                 const Workload& workload, const std::stop_token& stop);

/// The same for a mapping: each block is copied into one buffer, as read(2) would. Depth 1, reads
/// only; no engine takes part. A device that fails under a mapping ends the process with SIGBUS.
Result<Measurement> run_mapped_workload(const MappedFile& file, BufferPool& pool,
                                        const Workload& workload, const std::stop_token& stop);

}  // namespace stoker
