#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <string_view>

#include "dataset/dataset.h"
#include "stoker/status.h"

namespace stoker::python {

/// The sample as Python sees it: a dict of "__key__", a str, and the fields. Arrays are read-only
/// views into the record, which lives as long as any of them:
///
///     bytes             uint8, one dimension
///     array             of its dtype and shape
///     int64, float32, float64   one dimension; one number is a NumPy scalar, not an array
///     text              str; int where a tar's name says so ("cls", "id") and it is one
///     json              what json.loads makes of it; both as bytes if they are none, in a tar
///     tf.BytesList      a list of uint8 arrays
///
/// `corrupt` for text that is not UTF-8, JSON that is none, and shapes that do not fit. The GIL
/// must be held.
Result<nanobind::dict> make_sample(std::unique_ptr<SampleRecord> record, const ShardFormat& format);

/// One field of a sample, as in make_sample(): `field` may have lost its name.
Result<nanobind::object> make_value(const FieldView& field, std::string_view name,
                                    const ShardFormat& format, nanobind::handle owner);

/// Whether the format says that the field is numbers.
bool is_numbers(const FieldView& field) noexcept;

/// The sample's key: the field "__key__", where a format without keys has one, else the record's.
std::string_view key_of(const SampleRecord& record) noexcept;

/// A str of a name, which is bytes to storage: what is not UTF-8 comes as Python's own file names
/// do.
nanobind::str make_str(std::string_view text);

/// What NumPy calls the elements of a field: "<f4"; "|u1" for bytes, text and JSON.
std::string_view numpy_dtype(const FieldView& field) noexcept;

}  // namespace stoker::python
