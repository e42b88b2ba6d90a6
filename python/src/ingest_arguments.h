#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "dataset/input/input_memory.h"

namespace stoker::python {

/// Converts samples from Python: (key, [(name, type, dtype, shape, bytes)]). The bytes objects must
/// outlive the result: the caller's list owns them, and they are immutable.
std::vector<IngestedSample> to_samples(const nanobind::list& list);

}  // namespace stoker::python
