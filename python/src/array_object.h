#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/dtype.h"

namespace stoker::python {

/// A NumPy array over memory that `owner` keeps alive, read-only or not. bfloat16, for which NumPy
/// has no name, comes as uint16. The GIL must be held, as for all of these.
nanobind::object make_array(std::span<const std::byte> bytes, Dtype dtype,
                            std::span<const std::uint64_t> shape, nanobind::handle owner);
nanobind::object make_writable_array(std::span<std::byte> bytes, Dtype dtype,
                                     std::span<const std::uint64_t> shape, nanobind::handle owner);

/// One dimension of uint8, read-only.
nanobind::object make_bytes(std::span<const std::byte> bytes, nanobind::handle owner);

/// A NumPy array of its own, with a copy of `numbers`, which are below 2^63.
nanobind::object make_int64_array(std::span<const std::uint64_t> numbers);

}  // namespace stoker::python
