#pragma once

#include <cstdint>
#include <stop_token>
#include <string>

#include "bench/disk/cache_state.h"
#include "bench/disk/workload.h"
#include "io/files/file_ops.h"

namespace stoker {

/// Measures the cost of small files, because many datasets consist of millions of them.
struct SmallFilesWorkload {
  std::uint32_t file_bytes = 4096;
  std::uint32_t count_max = 20'000;
  nanoseconds time_max = kForever;
};

/// Creates files in `directory` with the names 0, 1, 2 and so on: open, write, close. They are not
/// synced, as packers do not sync each file either. `latency` is per file.
Result<Measurement> create_small_files(FileOps& ops, Engine& engine, BufferPool& pool,
                                       const std::string& directory,
                                       const SmallFilesWorkload& workload,
                                       const std::stop_token& stop);

/// Writes back the first `count` files and evicts them. Names stay in the kernel's dentry cache:
/// dropping it requires root and would slow down the whole machine.
Result<CacheCheck> make_small_files_cold(FileOps& ops, const std::string& directory,
                                         std::uint64_t count, const std::stop_token& stop);

/// Reads the first `count` files once and checks whether they stayed in the page cache.
Result<CacheCheck> make_small_files_warm(FileOps& ops, BufferPool& pool,
                                         const std::string& directory, std::uint64_t count,
                                         const std::stop_token& stop);

/// Reads the first `count` files, each once and in shuffled order: open, read, close.
Result<Measurement> read_small_files(FileOps& ops, Engine& engine, BufferPool& pool,
                                     const std::string& directory, std::uint64_t count,
                                     const SmallFilesWorkload& workload,
                                     const std::stop_token& stop);

}  // namespace stoker
