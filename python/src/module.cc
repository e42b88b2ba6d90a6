// stoker._native: the C++ library as Python sees it. One bind_*() per header; the package
// around it (python/stoker) has the public names.
#include <nanobind/nanobind.h>

#include "base/build_info.h"
#include "bind.h"
#include "io/engine/engine.h"
#include "raise.h"
#include "stoker/version.h"

namespace nb = nanobind;

namespace {

nb::str text(std::string_view from) {
  return nb::str(from.data(), from.size());
}

/// The same members as `stoker --version --json`, but that no environment variable has a say in the
/// engine.
nb::typed<nb::dict, nb::str, nb::object> build_info() {
  const stoker::BuildInfo info = stoker::build_info();
  const stoker::EngineChoice engine = stoker::probe_engine();
  nb::dict libraries;
  for (const stoker::LibraryVersion& library : info.libraries)
    libraries[text(library.name)] = text(library.version);
  nb::typed<nb::dict, nb::str, nb::object> found;
  found["version"] = text(info.version);
  found["revision"] = text(info.revision);
  found["compiler"] = text(info.compiler);
  found["platform"] = text(info.platform);
  found["libraries"] = libraries;
  found["engine"] = text(stoker::engine_kind_name(engine.kind));
  found["engine_reason"] = text(engine.reason);
  return found;
}

}  // namespace

NB_MODULE(_native, module) {
  module.doc() = "Stoker's native core. Import stoker instead.";
  module.attr("version") = stoker::kVersion;
  module.def("build_info", &build_info,
             "Returns version, revision, compiler, platform, libraries and engine, as `stoker\n"
             "--version --json` prints them; for reports of problems.");
  // Objects that are alive at exit need not be leaks: a tensor in a module may refer to a batch,
  // and so may the frames of an uncaught exception, a daemon thread, and a forked child.
  nb::set_leak_warnings(false);
  stoker::python::bind_errors(module);
  stoker::python::bind_plan(module);
  stoker::python::bind_probe(module);
  stoker::python::bind_store(module);
  stoker::python::bind_cache(module);
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
