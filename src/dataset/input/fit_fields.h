#pragma once

#include <string_view>

#include "formats/shard_format.h"
#include "stoker/status.h"

namespace stoker {

/// Turns the fields of a sample into what a format can hold, where something is lost only as
/// docs/formats/manifest.md says:
///
///     tar       names become lower case; one number becomes text; several, and arrays, a NumPy
///     file:
///               the field "x" becomes "x.npy"
///     tfrecord  float64 becomes float32; arrays of integers int64, of floats float32, without
///               their shape; JSON whose `dtype` says that it is a list of numbers the same
///     mds       one truth value becomes an int64, an array of them uint8
///     others    a NumPy file and a list of numbers become arrays: their writers take one array
///
/// `invalid_argument` for what has no such form.
Status fit_fields(std::string_view format, SampleView& sample);

}  // namespace stoker
