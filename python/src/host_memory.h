#pragma once

#include <nanobind/nanobind.h>

namespace stoker::python {

/// Returns the memory of a torch tensor that has all its elements in host memory, or with
/// `has_cuda` on a CUDA device, without gaps, as the items of a Memory
/// (python/stoker/_checkpoint/tensors/memory.py); the owner is the storage, which keeps the memory
/// alive. None for any other tensor. `strided` is torch.strided, and `types` has names in
/// safetensors by dtype. Everything is read while this thread has the GIL, so that it is from one
/// moment even if another thread replaces the tensor's data.
nanobind::object host_memory(nanobind::handle tensor, nanobind::handle strided,
                             const nanobind::dict& types, bool has_cuda);

}  // namespace stoker::python
