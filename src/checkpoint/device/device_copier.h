#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "checkpoint/staging/tensor_copier.h"
#include "gpu/cuda_driver.h"
#include "gpu/pinned_memory.h"

namespace stoker {

struct DeviceCopierOptions {
  /// Called when a save first has something on a device. The driver must outlive the copier.
  std::function<Result<const CudaDriver*>()> find_driver = CudaDriver::find;
  /// Of the staging arenas (SaverOptions::staging_arena), which it pins at their first use.
  std::shared_ptr<PinnedMemory> memory = PinnedMemory::make();
  std::size_t thread_count = 1;  ///< For what is in host memory, and for digests.
  bool may_gather = true;        ///< Whether small tensors are gathered on the device first.
  /// Gets the reason, in the next save, if they are not: a device lacks memory or the kernel.
  std::function<void(const Status&)> gather_failed = {};
};

/// Returns a copier for saves with tensors on CUDA devices (SaveTensor::device), in host memory, or
/// both. It uses no device before a save has a tensor there, or a stream of it.
///
/// A tensor on a device must be contiguous. It is copied straight to the staging memory, or, if
/// DeviceUse::snapshot_memory has room for it, first on the device: save() then returns once those
/// copies are enqueued. Tensors that do not fit, and those in host memory, are copied before. A
/// save through a ring takes a snapshot only if that has room for everything, with at most one
/// chunk of tensors in host memory.
///
/// begin() refuses a save during the capture of a CUDA graph. If a tensor is in pinned host memory,
/// it waits for the caller's streams, which may still write there.
std::shared_ptr<TensorCopier> make_device_copier(DeviceCopierOptions options);

}  // namespace stoker
