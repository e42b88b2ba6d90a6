#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <span>

namespace stoker::python {

/// A column of bytes: the fields of samples where they were read, made Python objects when they are
/// looked at.
struct BytesColumn {
  nanobind::object batch;  ///< Keeps `views` and `memory` alive.
  std::span<const std::span<const std::byte>> views;
  std::span<const std::byte> memory;  ///< In which most views lie.
  /// An array over `memory`, made at the first look: a slice of it is much cheaper than an array
  /// made from nothing.
  mutable nanobind::object array = {};
};

void bind_bytes_column(nanobind::module_& module);

}  // namespace stoker::python
