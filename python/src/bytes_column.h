#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace stoker::python {

/// A column of bytes: views of the fields of samples in the memory they were read into. Python
/// objects are created on access.
struct BytesColumn {
  nanobind::object batch;  ///< Keeps `views` and `memory` alive.
  std::span<const std::span<const std::byte>> views;
  std::span<const std::byte> memory;  ///< Contains most of the views.
  /// An array over `memory`, created on first access: a slice of it is much cheaper than a new
  /// array.
  mutable nanobind::object array = {};
};

void bind_bytes_column(nanobind::module_& module);

}  // namespace stoker::python
