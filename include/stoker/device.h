/// \file
/// Tensors on CUDA devices: the streams and the memory that a program lends to saves and restores.
///
/// Nothing here needs CUDA to compile or link. Handles are those of the driver and of the runtime:
/// a CUstream or cudaStream_t is the `handle` of a DeviceStream. Stoker loads the driver
/// (libcuda.so.1, CUDA 12.0 or newer) when the first tensor on a device is saved or restored, uses
/// the primary contexts that the program has made, and makes none.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// A queue of work on a device, as its driver calls it: for CUDA a CUstream, null for the default.
struct DeviceStream {
  std::int32_t device = 0;
  void* handle = nullptr;
};

/// Memory of a device. `owner` is released when it is no longer used, by any thread.
struct DeviceMemory {
  std::byte* data = nullptr;
  std::size_t size_bytes = 0;
  std::shared_ptr<void> owner = {};
};

/// Returns memory for a snapshot of a device's tensors, `size_bytes` of it or less; nothing if
/// there is none.
using LendMemory = std::function<DeviceMemory(std::int32_t device, std::uint64_t size_bytes)>;

/// What the caller of a save has on devices.
struct DeviceUse {
  /// The caller's streams. The save reads a device's tensors after the work that these have at the
  /// time of the call, and before work that they get after it has returned.
  std::vector<DeviceStream> streams = {};
  /// Called by the thread that called save(), before that returns, with what this rank stores on
  /// the device. Empty: no snapshot is taken.
  LendMemory snapshot_memory = {};
};

/// Returns OK if tensors on CUDA devices can be saved and restored here, otherwise why not:
/// `unsupported` without a driver, with one that is too old, or without a GPU. Loads and
/// initializes the driver; creates no context.
STOKER_API Status check_devices();

/// Returns memory for snapshots that is allocated with the driver, for programs without an
/// allocator of their own: at most `most_bytes` on each device, and never more than half of what is
/// free there. It is freed when the snapshot has left the device. Nothing is lent if the driver
/// refuses, and the save goes through the host. Fails as check_devices() does.
STOKER_API Result<LendMemory> make_snapshot_memory(std::uint64_t most_bytes);

}  // namespace stoker
