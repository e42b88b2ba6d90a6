#pragma once

#include <nanobind/nanobind.h>

namespace stoker::python {

/// Each adds the classes and functions of one header to the module.
void bind_probe(nanobind::module_& module);
void bind_dataset(nanobind::module_& module);
void bind_pack(nanobind::module_& module);

}  // namespace stoker::python
