#pragma once

#include <nanobind/nanobind.h>

#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "checkpoint/restore/box_copy.h"
#include "checkpoint/staging/layout.h"

namespace stoker::python {

/// Tuples (name, type, shape, address, strides or None, None or a slice's offsets in its tensor and
/// that one's shape), as python/stoker/_checkpoint/writer.py makes them. What lies at the address
/// must stay there while the result is used.
std::vector<SaveTensor> save_tensors_of(const nanobind::list& tensors);

/// Tuples (name, offsets and shape of the box or None for all, address of the first element,
/// strides or None, address and size of all memory that may be written).
std::vector<ReadTarget> read_targets_of(const nanobind::list& targets);

/// Seconds; nothing is for ever.
nanoseconds timeout_of(std::optional<double> seconds);

/// Paths are bytes, as the kernel has them: Python's os.fsencode() made them.
std::string path_of(const nanobind::bytes& path);
/// Names and messages are mostly UTF-8; what is not comes as Python's own file names do.
nanobind::str text_of(std::string_view text);

}  // namespace stoker::python
