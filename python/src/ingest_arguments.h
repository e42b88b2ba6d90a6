#pragma once

#include <nanobind/nanobind.h>

#include <vector>

#include "memory_source.h"

namespace stoker::python {

/// Samples as Python hands them over: (key, [(name, type, dtype, shape, bytes)]). The bytes objects
/// outlive the result: the caller's list holds them, and they never change.
std::vector<IngestedSample> to_samples(const nanobind::list& list);

}  // namespace stoker::python
