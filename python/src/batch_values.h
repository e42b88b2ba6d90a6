#pragma once

#include <nanobind/nanobind.h>

#include "stoker/batch.h"

namespace stoker::python {

/// Returns a column of a batch for which no type was requested, with the values that stoker.Dataset
/// gives for each sample (None for a sample without the field), and the kind of the column:
///
///     "bytes"    a BytesColumn
///     "values"   a list of str, JSON and byte arrays
///     "numbers"  a list of numbers and arrays, and None
///     "mixed"    a list of numbers and others
///
/// None if a type was requested for the column. Raises for a value that cannot be read as its
/// format promises. The GIL must be held, as for all functions here.
nanobind::object batch_values(nanobind::handle_t<Batch> self, const Column& column);

/// Returns a bool per sample: whether it has the field. None if all have it.
nanobind::object batch_presence(const Column& column);

}  // namespace stoker::python
