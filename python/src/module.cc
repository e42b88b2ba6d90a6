// stoker._native: the C++ library as Python sees it. One bind_*() per header; the package
// around it (python/stoker) has the public names.
#include <nanobind/nanobind.h>

#include "bind.h"
#include "raise.h"
#include "stoker/version.h"

namespace nb = nanobind;

NB_MODULE(_native, module) {
  module.doc() = "Stoker's native core. Import stoker instead.";
  module.attr("version") = stoker::kVersion;
  // Objects that are alive at exit need not be leaks: a tensor in a module may refer to a batch,
  // and so may the frames of an uncaught exception, a daemon thread, and a forked child.
  nb::set_leak_warnings(false);
  stoker::python::bind_errors(module);
  stoker::python::bind_probe(module);
  stoker::python::bind_dataset(module);
  stoker::python::bind_tokens(module);
  stoker::python::bind_order(module);
  stoker::python::bind_cursor(module);
  stoker::python::bind_batch(module);
  stoker::python::bind_loader(module);
  stoker::python::bind_feed(module);
  stoker::python::bind_loader_setup(module);
  stoker::python::bind_pack(module);
  stoker::python::bind_import(module);
  stoker::python::bind_io(module);
  stoker::python::bind_checkpoint(module);
  stoker::python::bind_checkpoint_ranks(module);
  stoker::python::bind_checkpoint_read(module);
  stoker::python::bind_checkpoint_restore(module);
  stoker::python::bind_safetensors(module);
}
