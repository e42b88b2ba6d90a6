#pragma once

#include <cstdint>
#include <stop_token>

#include "bench/disk/workload.h"

namespace stoker {

/// Appends and makes durable, again and again.
struct SyncWorkload {
  Op op = Op::fdatasync;  ///< Or `fsync`.
  std::uint32_t block_bytes = 4096;
  std::uint64_t bytes_max = 0;
  nanoseconds time_max = kForever;
};

/// The latency is that of the sync call alone; bytes, count and elapsed are of the whole loop.
/// Appending, because that is what logs and checkpoints do: the sync then carries the new size too.
Result<Measurement> run_sync_latency(Engine& engine, File& file, BufferPool& pool,
                                     const SyncWorkload& workload, const std::stop_token& stop);

}  // namespace stoker
