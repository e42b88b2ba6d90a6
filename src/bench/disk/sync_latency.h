#pragma once

#include <cstdint>
#include <stop_token>

#include "bench/disk/workload.h"

namespace stoker {

/// Appends one block and syncs, repeatedly.
struct SyncWorkload {
  Op op = Op::fdatasync;  ///< Or `fsync`.
  std::uint32_t block_bytes = 4096;
  std::uint64_t bytes_max = 0;
  nanoseconds time_max = kForever;
};

/// `latency` is that of the sync call alone; bytes, count and elapsed time are of the whole loop.
/// The workload appends, as logs and checkpoints do, so that the sync includes the new file size.
Result<Measurement> run_sync_latency(Engine& engine, File& file, BufferPool& pool,
                                     const SyncWorkload& workload, const std::stop_token& stop);

}  // namespace stoker
