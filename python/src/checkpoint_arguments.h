#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "base/clock.h"
#include "checkpoint/restore/box_copy.h"
#include "checkpoint/staging/layout.h"

namespace stoker::python {

/// The tensors of a save, as collected by python/stoker/_checkpoint/state/tree.py: by name, a tuple
/// that has type, shape, strides or None, address, two more, and the device or None; for slices, by
/// name, the offsets in the tensor and the tensor's shape; and the names of those that belong to
/// this rank alone.
using TensorArguments = std::tuple<nanobind::dict, nanobind::dict, nanobind::set>;

/// The memory at the addresses must stay valid while the result is used.
std::vector<SaveTensor> save_tensors_of(const TensorArguments& tensors);

/// Converts tuples (name, offsets and shape of the box or None for all, address of the first
/// element, strides or None, address and size of all memory that may be written, and if that is on
/// a CUDA device its number).
std::vector<ReadTarget> read_targets_of(const nanobind::list& targets);

/// Converts seconds; nothing means forever.
nanoseconds timeout_of(std::optional<double> seconds);

/// Paths are bytes, as in the kernel: made by Python's os.fsencode().
std::string path_of(const nanobind::bytes& path);
/// Decodes names and messages, which are mostly UTF-8; other bytes are surrogate-escaped, like
/// Python's file names.
nanobind::str text_of(std::string_view text);

}  // namespace stoker::python
