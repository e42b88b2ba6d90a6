#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstddef>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "bind.h"
#include "checkpoint_arguments.h"
#include "engine_setting.h"
#include "gpu/direct_reads.h"
#include "io/engine/buffer_pool.h"
#include "io/engine/engine.h"
#include "raise.h"
#include "stoker/probe.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

constexpr const char* kProbeDoc =
    "Probes what the storage under a directory can do.\n\n"
    "Creates scratch files in `path` and removes them before the return; takes some milliseconds "
    "on\n"
    "a local filesystem. STOKER_ENGINE, if set, decides `engine`. If the process uses GPU 0, and\n"
    "cuFile and the drive may allow it, reads a scratch file with cuFile, which takes longer and\n"
    "resets cuFile's counters: gpu_direct_reads says whether the bytes went straight to the GPU,\n"
    "and gpu_direct_reads_reason why not.\n\n"
    "Raises OSError if the directory is not writable or the engine that STOKER_ENGINE names does "
    "not\n"
    "work, and ValueError if it is not the name of an engine.";

/// With what the GPU library adds.
struct MachineProbe : StorageProbe {
  bool gpu_direct_reads = false;
  std::string gpu_direct_reads_reason;
};

/// Calls `visit(name, member)` for every field: the single list for attributes, repr() and
/// to_dict().
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
  visit("gpu_direct_reads", &MachineProbe::gpu_direct_reads);
  visit("gpu_direct_reads_reason", &MachineProbe::gpu_direct_reads_reason);
}

/// Replaces the automatic engine with the wanted one, after trying it. `unsupported` if it does not
/// work.
Status take_engine(EngineKind wanted, StorageProbe& found) {
  constexpr std::size_t kArenaBytes = std::size_t{4} << 20;
  const std::string setting = "STOKER_ENGINE=" + std::string(engine_kind_name(wanted));
  const Result<BufferPool> pool = BufferPool::make({.budget_bytes = kArenaBytes});
  const Result<std::unique_ptr<Engine>> engine = make_engine(wanted, {.depth = 2});
  if (!engine.ok())
    return Status(Code::unsupported,
                  setting + " does not work here (" + std::string(engine.status().message()) +
                      "): use auto or threads",
                  engine.status().os_error());
  const Status registered = pool.ok() ? (*engine)->register_buffers(pool->memory()) : pool.status();
  found.registered_buffers = registered.ok();
  found.registered_buffers_reason = registered.message();
  found.engine_reason =
      setting + " (automatic takes " + found.engine + ": " + found.engine_reason + ")";
  found.engine = engine_kind_name(wanted);
  return {};
}

Result<MachineProbe> probe_with_settings(const std::string& directory, EngineKind wanted) {
  STOKER_ASSIGN(StorageProbe storage, probe(directory));
  MachineProbe found{std::move(storage)};
  DirectReads direct = probe_direct_reads(directory, 0, {.may_create_context = false});
  found.gpu_direct_reads = direct.are_real;
  found.gpu_direct_reads_reason = std::move(direct.reason);
  if (wanted != EngineKind::automatic) STOKER_TRY(take_engine(wanted, found));
  return found;
}

/// Converts a path like os.fsencode(), with the same exceptions: nanobind's own conversion raises
/// TypeError for a null byte in a path.
std::string encoded_path(const nb::object& path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw nb::python_error();
  return path_of(nb::steal<nb::bytes>(bytes));
}

nb::dict to_dict(const MachineProbe& self) {
  nb::dict fields;
  for_each_field([&](const char* name, auto member) { fields[name] = nb::cast(self.*member); });
  return fields;
}

std::string to_repr(const MachineProbe& self) {
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
// ever takes it. Failures are raised after the GIL is held again.
void bind_probe(nb::module_& module) {
  nb::class_<MachineProbe> type(module, "StorageProbe",
                                "The capabilities of the storage under one directory.");
  for_each_field([&](const char* name, auto member) { type.def_ro(name, member); });
  type.def("to_dict", &to_dict, nb::sig("def to_dict(self) -> dict[str, str | int | bool]"),
           "Returns all fields by name, for JSON.");
  type.def("__repr__", &to_repr);

  module.def(
      "probe",
      [](const nb::object& path) {
        const std::string directory = encoded_path(path);
        const EngineKind wanted = engine_setting();
        return value_or_raise(without_gil([&] { return probe_with_settings(directory, wanted); }));
      },
      "path"_a = ".", nb::sig("def probe(path: str | os.PathLike[str] = '.') -> StorageProbe"),
      kProbeDoc);
}

}  // namespace stoker::python
