#pragma once

#include <nanobind/nanobind.h>

#include "dataset/loader/loader_stats.h"
#include "stoker/status.h"

namespace stoker::python {

/// The counters of a run, times in seconds. The GIL must be held, as for the other one.
nanobind::dict report_stats(const LoaderStats& stats);

/// Raises for a batch that could not be made. Messages about samples say which; of a CorruptError
/// that becomes its path, offset and key.
void raise_for_batch(const Status& status);

}  // namespace stoker::python
