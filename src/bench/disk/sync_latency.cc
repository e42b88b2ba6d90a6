#include "bench/disk/sync_latency.h"

#include "bench/noise.h"

namespace stoker {

Result<Measurement> run_sync_latency(Engine& engine, File& file, BufferPool& pool,
                                     const SyncWorkload& workload, const std::stop_token& stop) {
  if (workload.op != Op::fsync && workload.op != Op::fdatasync)
    return Status(Code::invalid_argument, "sync latency: the operation must be a sync");
  if (workload.bytes_max < workload.block_bytes)
    return Status(Code::invalid_argument, "sync latency: there is no room for one block");
  STOKER_ASSIGN(const Lease lease, pool.try_lease(workload.block_bytes));
  fill_with_noise(lease.bytes(), Workload::kSeed);

  Measurement found{.path = file.write_path()};
  Histogram latency;
  const Deadline start = Clock::now();
  const Deadline deadline = deadline_after(workload.time_max, start);
  Deadline now = start;
  while (found.bytes + workload.block_bytes <= workload.bytes_max && now < deadline) {
    if (stop.stop_requested()) return Status(Code::cancelled, "interrupted");
    stamp_pages(lease.bytes(), found.bytes);
    STOKER_ASSIGN(const Request write,
                  file.plan_write(found.bytes, workload.block_bytes, lease.bytes()));
    if (Result<std::size_t> moved = perform(engine, write); !moved.ok())
      return moved.status().with_context("write");
    const Deadline written = Clock::now();
    if (Result<std::size_t> done = perform(engine, {.op = workload.op, .fd = write.fd}); !done.ok())
      return done.status().with_context("sync");
    now = Clock::now();
    latency.record(now - written);
    found.bytes += workload.block_bytes;
    ++found.count;
  }
  found.elapsed = now - start;
  found.latency = latency.snapshot();
  return found;
}

}  // namespace stoker
