#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "stoker/dtype.h"

namespace stoker::python {

/// Return a NumPy array over memory that `owner` keeps alive, read-only or writable. NumPy has no
/// bfloat16: it becomes uint16. The GIL must be held, as for all functions here.
nanobind::object make_array(std::span<const std::byte> bytes, Dtype dtype,
                            std::span<const std::uint64_t> shape, nanobind::handle owner);
nanobind::object make_writable_array(std::span<std::byte> bytes, Dtype dtype,
                                     std::span<const std::uint64_t> shape, nanobind::handle owner);

/// Returns a read-only, one-dimensional array of uint8.
nanobind::object make_bytes(std::span<const std::byte> bytes, nanobind::handle owner);

/// Returns a NumPy array with a copy of `numbers`, which are below 2^63.
nanobind::object make_int64_array(std::span<const std::uint64_t> numbers);

}  // namespace stoker::python
