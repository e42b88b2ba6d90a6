#include "bench/disk/small_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <functional>

#include "bench/noise.h"
#include "io/engine/residency.h"

namespace stoker {
namespace {

Status interrupted() {
  return Status(Code::cancelled, "interrupted");
}

constexpr std::uint64_t kWholeFile = ~std::uint64_t{0} >> 1;

std::string path_of(const std::string& directory, std::uint64_t index) {
  return directory + "/" + std::to_string(index);
}

/// Calls `visit` with 0, 1, 2 and so on and times each call.
Result<Measurement> measure_each(std::uint64_t count, const SmallFilesWorkload& workload,
                                 const std::stop_token& stop,
                                 const std::function<Status(std::uint64_t)>& visit) {
  Measurement found;
  Histogram latency;
  const Deadline start = Clock::now();
  const Deadline deadline = deadline_after(workload.time_max, start);
  Deadline now = start;
  while (found.count < count && now < deadline) {
    if (stop.stop_requested()) return interrupted();
    STOKER_TRY(visit(found.count));
    const Deadline done = Clock::now();
    latency.record(done - now);
    now = done;
    ++found.count;
  }
  found.bytes = found.count * workload.file_bytes;
  found.elapsed = now - start;
  found.latency = latency.snapshot();
  return found;
}

}  // namespace

Result<Measurement> create_small_files(FileOps& ops, Engine& engine, BufferPool& pool,
                                       const std::string& directory,
                                       const SmallFilesWorkload& workload,
                                       const std::stop_token& stop) {
  STOKER_ASSIGN(const Lease lease, pool.try_lease(workload.file_bytes));
  const std::span<std::byte> bytes = lease.bytes().first(workload.file_bytes);
  fill_with_noise(bytes, Workload::kSeed);
  return measure_each(workload.count_max, workload, stop, [&](std::uint64_t index) -> Status {
    stamp_pages(bytes, index);
    STOKER_ASSIGN(UniqueFd fd, ops.open(path_of(directory, index), O_WRONLY | O_CREAT | O_EXCL));
    const Result<std::size_t> moved =
        perform(engine, {.op = Op::write, .fd = fd.get(), .buffer = bytes});
    if (!moved.ok()) return moved.status().with_context("write a small file");
    return ops.close(std::move(fd));
  });
}

Result<CacheCheck> make_small_files_cold(FileOps& ops, const std::string& directory,
                                         std::uint64_t count, const std::stop_token& stop) {
  STOKER_ASSIGN(const UniqueFd anchor, ops.open(directory, O_RDONLY | O_DIRECTORY));
  if (::syncfs(anchor.get()) != 0) return Status::from_errno(errno, "syncfs", directory);
  CacheCheck worst{.state = CacheState::cold};
  for (std::uint64_t index = 0; index < count; ++index) {
    if (stop.stop_requested()) return interrupted();
    STOKER_ASSIGN(const UniqueFd fd, ops.open(path_of(directory, index), O_RDONLY));
    STOKER_ASSIGN(CacheCheck check, make_cold(fd.get()));
    if (check.resident_share > worst.resident_share) worst = std::move(check);
  }
  return worst;
}

Result<CacheCheck> make_small_files_warm(FileOps& ops, BufferPool& pool,
                                         const std::string& directory, std::uint64_t count,
                                         const std::stop_token& stop) {
  CacheCheck worst{.state = CacheState::warm, .resident_share = 1};
  for (std::uint64_t index = 0; index < count; ++index) {
    STOKER_ASSIGN(const UniqueFd fd, ops.open(path_of(directory, index), O_RDONLY));
    STOKER_ASSIGN(CacheCheck check, make_warm(fd.get(), kWholeFile, pool, stop));
    if (check.resident_share < worst.resident_share) worst = std::move(check);
  }
  return worst;
}

Result<Measurement> read_small_files(FileOps& ops, Engine& engine, BufferPool& pool,
                                     const std::string& directory, std::uint64_t count,
                                     const SmallFilesWorkload& workload,
                                     const std::stop_token& stop) {
  if (count == 0) return Status(Code::invalid_argument, "there are no small files to read");
  STOKER_ASSIGN(const Lease lease, pool.try_lease(workload.file_bytes));
  const std::span<std::byte> bytes = lease.bytes().first(workload.file_bytes);
  BlockOrder order(Pattern::random, count, Workload::kSeed);
  return measure_each(count, workload, stop, [&](std::uint64_t) -> Status {
    const std::string path = path_of(directory, order.next());
    STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDONLY));
    const Result<std::size_t> moved =
        perform(engine, {.op = Op::read, .fd = fd.get(), .buffer = bytes});
    if (!moved.ok()) return moved.status().with_context("read " + path);
    if (*moved != bytes.size()) return Status(Code::io_error, "read " + path + ": it is too short");
    return ops.close(std::move(fd));
  });
}

}  // namespace stoker
