/// \file
/// The functions of NVIDIA's libcufile that a probe of direct reads needs, loaded at run time. The
/// structures are those of cufile.h 1.15; nothing here needs that header.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "gpu/cuda_driver.h"
#include "stoker/status.h"

namespace stoker {

/// CUfileError_t: 0 is success, numbers from 5000 on are its own errors, and others those of CUDA.
struct CuFileError {
  int error = 0;
  CudaResult cuda = kCudaSuccess;
};

/// CUfileDescr_t.
struct CuFileDescription {
  int type = 1;  ///< CU_FILE_HANDLE_TYPE_OPAQUE_FD.
  union {
    int fd;
    void* other;
  } handle = {};
  const void* operations = nullptr;
};

using CuFileHandle = void*;

/// How reads have got to the memory of GPUs: the counters of CUfileStatsLevel3_t, of all GPUs
/// together.
struct CuFileCounters {
  std::uint64_t peer_reads = 0;   ///< By PCI peer-to-peer transfers.
  std::uint64_t nvfs_reads = 0;   ///< By the nvidia-fs kernel module.
  std::uint64_t posix_reads = 0;  ///< Through host memory.
};

/// CUfileStatsLevel3_t. It may grow in later versions, so there is more room than it needs.
struct CuFileStats {
  std::array<std::uint64_t, 4096> words = {};

  CuFileCounters counters() const;
};

/// The entry points. Tests fill in a table of their own. The names are those of the library without
/// "cuFile".
///
/// Thread safety: immutable once filled in; the functions may be called from any thread.
struct CuFile {
  /// Loads libcufile.so.0, once per process: from the library path, or the one that torch has
  /// loaded. Calls nothing. `unsupported` with the reason. The table is never freed.
  static Result<const CuFile*> find();

  /// Returns OK for success, and otherwise `unsupported`: "call: error 5008".
  static Status check(CuFileError error, const char* call);

  std::function<CuFileError()> driver_open;
  std::function<CuFileError()> driver_close;
  std::function<CuFileError(CuFileHandle* handle, CuFileDescription* description)> handle_register;
  std::function<void(CuFileHandle handle)> handle_deregister;
  std::function<ssize_t(CuFileHandle handle, void* memory, std::size_t size_bytes,
                        off_t offset_bytes, off_t memory_offset_bytes)>
      read;

  // From 1.15 on; empty in older versions.
  std::function<CuFileError(int level)> set_stats_level;
  std::function<CuFileError()> stats_start;
  std::function<CuFileError()> stats_stop;
  std::function<CuFileError(CuFileStats* stats)> get_stats_l3;

  bool has_counters() const noexcept {
    return set_stats_level && stats_start && stats_stop && get_stats_l3;
  }
};

}  // namespace stoker
