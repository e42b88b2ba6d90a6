#pragma once

#include <functional>
#include <string>

#include "gpu/cuda_driver.h"
#include "gpu/cufile.h"
#include "stoker/probe.h"

namespace stoker {

/// What probe_direct_reads() uses; tests have their own.
struct DirectReadTools {
  std::function<Result<const CudaDriver*>()> find_driver = CudaDriver::find;
  std::function<Result<const CuFile*>()> find_library = CuFile::find;
  std::string proc = "/proc";
  std::string sysfs = "/sys";
  std::string udev = "/run/udev";  ///< libcufile asks it which drives there are.
  /// Whether the device's context may be created. In a program that trains, that would take memory
  /// of a GPU which may be another process's.
  bool may_create_context = true;
};

/// Tries it: cuFile reads a scratch file of 1 MiB in `directory` into memory of the device, and its
/// own counters tell how. libcufile falls back to reads through host memory without a word, so that
/// neither its presence nor a read that succeeds proves anything.
///
/// What rules it out is asked first, and costs nothing. Only if nothing does, libcufile is
/// initialized, for the duration of the call; it may start threads and write `cufile.log` to the
/// current directory. The scratch file is removed.
///
/// Thread safety: one call at a time in a process, and none during other uses of libcufile: its
/// counters are those of the process.
DirectReads probe_direct_reads(const std::string& directory, int device = 0,
                               const DirectReadTools& tools = {});

}  // namespace stoker
