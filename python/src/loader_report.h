#pragma once

#include <nanobind/nanobind.h>

#include "dataset/loader/loader_stats.h"
#include "stoker/status.h"

namespace stoker::python {

/// Returns the counters of a run, times in seconds. The GIL must be held, as for raise_for_batch().
nanobind::dict report_stats(const LoaderStats& stats);

/// Raises for a batch that could not be made. The sample that the message names becomes path,
/// offset and key of a CorruptError.
void raise_for_batch(const Status& status);

}  // namespace stoker::python
