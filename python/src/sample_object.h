#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string_view>

#include "dataset/shard_dataset.h"
#include "stoker/status.h"

namespace stoker::python {

/// Returns the sample as a dict of "__key__", a str, and the fields. Arrays are read-only views of
/// the record, which they keep alive:
///
///     bytes             uint8, one dimension
///     array             of its dtype and shape
///     int64, float32, float64   one dimension; one number is a NumPy scalar, not an array
///     text              str; int if a tar's name says so ("cls", "id") and the text is an integer
///     json              the result of json.loads; in a tar, invalid text and JSON are bytes
///     tf.BytesList      a list of uint8 arrays
///
/// `corrupt` for text that is not UTF-8, for invalid JSON, and for shapes that do not match. The
/// GIL must be held.
Result<nanobind::dict> make_sample(std::unique_ptr<SampleRecord> record, const ShardFormat& format);

/// Returns one field of a sample, as in make_sample(); the name of `field` may be missing.
Result<nanobind::object> make_value(const FieldView& field, std::string_view name,
                                    const ShardFormat& format, nanobind::handle owner);

/// Whether the format says that the field contains numbers.
bool is_numbers(const FieldView& field) noexcept;

/// Returns the sample's key: the field "__key__" in formats without keys, otherwise the record's
/// key.
std::string_view key_of(const SampleRecord& record) noexcept;

/// Returns a name as str. Storage has bytes: those that are not UTF-8 are surrogate-escaped, like
/// Python's file names.
nanobind::str make_str(std::string_view text);

/// Returns NumPy's name for the elements of a field: "<f4"; "|u1" for bytes, text and JSON.
std::string_view numpy_dtype(const FieldView& field) noexcept;

}  // namespace stoker::python
