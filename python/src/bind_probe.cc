#include <nanobind/nanobind.h>
#include <nanobind/stl/filesystem.h>
#include <nanobind/stl/string.h>

#include <cstdlib>
#include <string>
#include <type_traits>

#include "bind.h"
#include "io/engine.h"
#include "raise.h"
#include "stoker/probe.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

constexpr const char* kProbeDoc =
    "Finds out what the storage under a directory can do, by trying.\n\n"
    "Scratch files are made in `path` and are gone on return; it takes some milliseconds on a\n"
    "local filesystem. STOKER_ENGINE, where set, decides `engine`.\n\n"
    "Raises OSError if the directory cannot be written to, and ValueError if STOKER_ENGINE is\n"
    "not the name of an engine.";

/// Calls `visit(name, member)` for every field: the one list that attributes, repr() and to_dict()
/// are made of.
template <typename Visit>
void for_each_field(Visit&& visit) {
  visit("path", &StorageProbe::path);
  visit("kernel", &StorageProbe::kernel);
  visit("filesystem", &StorageProbe::filesystem);
  visit("engine", &StorageProbe::engine);
  visit("engine_reason", &StorageProbe::engine_reason);
  visit("registered_buffers", &StorageProbe::registered_buffers);
  visit("registered_buffers_reason", &StorageProbe::registered_buffers_reason);
  visit("direct_io", &StorageProbe::direct_io);
  visit("direct_memory_align_bytes", &StorageProbe::direct_memory_align_bytes);
  visit("direct_offset_align_bytes", &StorageProbe::direct_offset_align_bytes);
  visit("dont_cache", &StorageProbe::dont_cache);
  visit("cachestat", &StorageProbe::cachestat);
  visit("read_path", &StorageProbe::read_path);
  visit("write_path", &StorageProbe::write_path);
  visit("rename_noreplace", &StorageProbe::rename_noreplace);
  visit("directory_fsync", &StorageProbe::directory_fsync);
  visit("hard_links", &StorageProbe::hard_links);
  visit("huge_pages", &StorageProbe::huge_pages);
  visit("memlock_bytes", &StorageProbe::memlock_bytes);
}

/// Settings of the environment are read here and in the command line, never in the library.
Result<EngineKind> engine_from_environment() {
  const char* name = std::getenv("STOKER_ENGINE");
  if (name == nullptr || *name == '\0') return EngineKind::automatic;
  Result<EngineKind> kind = parse_engine_kind(name);
  if (!kind.ok()) return kind.status().with_context("STOKER_ENGINE");
  return kind;
}

Result<StorageProbe> probe_with_settings(const std::string& directory, EngineKind wanted) {
  STOKER_ASSIGN(StorageProbe found, probe(directory));
  if (wanted == EngineKind::automatic) return found;
  const std::string name(engine_kind_name(wanted));
  found.engine_reason = "STOKER_ENGINE=" + name + " (automatic takes " + found.engine + ": " +
                        found.engine_reason + ")";
  found.engine = name;
  return found;
}

nb::dict to_dict(const StorageProbe& self) {
  nb::dict fields;
  for_each_field([&](const char* name, auto member) { fields[name] = nb::cast(self.*member); });
  return fields;
}

std::string to_repr(const StorageProbe& self) {
  std::string text = "StorageProbe(";
  const char* separator = "";
  for_each_field([&](const char* name, auto member) {
    text.append(separator).append(name).append("=");
    text.append(nb::repr(nb::cast(self.*member)).c_str());
    separator = ", ";
  });
  return text.append(")");
}

}  // namespace

// Arguments are converted while the GIL is held; the work runs without it, and no engine thread
// ever takes it. Failures are raised after it has been taken back.
void bind_probe(nb::module_& module) {
  nb::class_<StorageProbe> type(module, "StorageProbe",
                                "What the storage under one directory can do.");
  for_each_field([&](const char* name, auto member) { type.def_ro(name, member); });
  type.def("to_dict", &to_dict, nb::sig("def to_dict(self) -> dict[str, str | int | bool]"),
           "Every field by name, ready for JSON.");
  type.def("__repr__", &to_repr);

  module.def(
      "probe",
      [](const std::filesystem::path& path) {
        const EngineKind wanted = value_or_raise(engine_from_environment());
        return value_or_raise(
            without_gil([&] { return probe_with_settings(path.string(), wanted); }));
      },
      "path"_a = ".", nb::sig("def probe(path: str | os.PathLike[str] = '.') -> StorageProbe"),
      kProbeDoc);
}

}  // namespace stoker::python
