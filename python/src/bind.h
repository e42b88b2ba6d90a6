#pragma once

#include <nanobind/nanobind.h>

namespace stoker::python {

/// Each adds the classes and functions of one header to the module.
void bind_plan(nanobind::module_& module);
void bind_probe(nanobind::module_& module);
void bind_cache(nanobind::module_& module);
void bind_store(nanobind::module_& module);
void bind_dataset(nanobind::module_& module);
void bind_tokens(nanobind::module_& module);
void bind_order(nanobind::module_& module);
void bind_cursor(nanobind::module_& module);
void bind_batch(nanobind::module_& module);
void bind_loader(nanobind::module_& module);
void bind_loader_setup(nanobind::module_& module);
void bind_feed(nanobind::module_& module);
void bind_import(nanobind::module_& module);
void bind_io(nanobind::module_& module);
void bind_pack(nanobind::module_& module);
void bind_checkpoint(nanobind::module_& module);
void bind_checkpoint_ranks(nanobind::module_& module);
void bind_checkpoint_read(nanobind::module_& module);
void bind_checkpoint_restore(nanobind::module_& module);
void bind_safetensors(nanobind::module_& module);

}  // namespace stoker::python
