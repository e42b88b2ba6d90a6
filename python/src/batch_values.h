#pragma once

#include <nanobind/nanobind.h>

#include "dataset/batch/batch.h"

namespace stoker::python {

/// A column of a batch for which no type was asked: what stoker.Dataset gives for each sample,
/// None for one that has not the field, and what they are together:
///
///     "bytes"    a BytesColumn
///     "values"   a list of str, JSON and byte arrays
///     "numbers"  a list of numbers and arrays, and None
///     "mixed"    a list of numbers and others
///
/// None if the column has a type that was asked for. Raises for what cannot be read as its format
/// promises. The GIL must be held, as for all of these.
nanobind::object batch_values(nanobind::handle_t<Batch> self, const Column& column);

/// Which samples have the field: a bool for each; None if all have it.
nanobind::object batch_presence(const Column& column);

}  // namespace stoker::python
