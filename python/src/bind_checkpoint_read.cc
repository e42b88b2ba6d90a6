#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bind.h"
#include "checkpoint/catalog/catalog.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/catalog/retention.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/restore/reader.h"
#include "checkpoint/restore/tensor_names.h"
#include "checkpoint_arguments.h"
#include "engine_setting.h"
#include "io/files/publish.h"
#include "killing_file_ops.h"
#include "open_checkpoint.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// Through the page cache, several processes of a machine read the disk once.
CheckpointReader::Options reader_options(bool through_cache) {
  return {.file = {.policy = through_cache ? CachePolicy::buffered : CachePolicy::automatic},
          .engine = make_engine_factory(engine_setting())};
}

OpenCheckpoint open_checkpoint(const nb::bytes& directory, bool through_cache) {
  const std::string path = path_of(directory);
  const CheckpointReader::Options options = reader_options(through_cache);
  Result<CheckpointReader> reader =
      without_gil([&] { return CheckpointReader::open(posix_file_ops(), path, options); });
  raise_if_damaged(reader.status(), parent_of(path));
  return {std::make_shared<const CheckpointReader>(*std::move(reader))};
}

nb::list tensors_of(const OpenCheckpoint& self) {
  nb::list out;
  for (const TensorInfo& tensor : reader_of(self).tensors())
    out.append(nb::make_tuple(text_of(tensor.name), text_of(tensor_type_name(tensor.type)),
                              nb::tuple(nb::cast(tensor.shape))));
  return out;
}

nb::list choose_names(const OpenCheckpoint& self, const std::vector<std::string>& only,
                      std::optional<std::uint32_t> rank) {
  nb::list out;
  for (const NamedTensor& one : choose_tensors(name_tensors(reader_of(self), rank), only))
    out.append(nb::make_tuple(text_of(one.name), text_of(one.tensor->name)));
  return out;
}

/// Digests that the manifest lacks are computed from the data.
nb::dict digests_of(const OpenCheckpoint& self, const std::vector<std::string>& names) {
  const CheckpointReader& reader = reader_of(self);
  const auto digests = without_gil([&]() -> Result<std::map<std::string, std::string>> {
    std::map<std::string, std::string> found;
    for (const std::string& name : names) {
      const TensorInfo* tensor = reader.find(name);
      if (tensor == nullptr) continue;
      STOKER_ASSIGN(const Digest128 digest, reader.digest_of(*tensor));
      found[name] = digest.hex();
    }
    return found;
  });
  raise_if_damaged(digests.status(), reader.directory());
  nb::dict out;
  for (const auto& [name, digest] : *digests) out[text_of(name)] = text_of(digest);
  return out;
}

OpenCheckpoint open_safetensors(const std::vector<nb::bytes>& paths, bool through_cache) {
  std::vector<std::string> files;
  for (const nb::bytes& path : paths) files.push_back(path_of(path));
  const CheckpointReader::Options options = reader_options(through_cache);
  Result<CheckpointReader> reader =
      without_gil([&] { return CheckpointReader::open_plain(posix_file_ops(), files, options); });
  raise_if_damaged(reader.status(), files.empty() ? "" : parent_of(files.front()));
  return {std::make_shared<const CheckpointReader>(*std::move(reader))};
}

/// Returns what reads to devices keep for the next one. Never freed: the driver may be gone when
/// the process ends.
const std::shared_ptr<DeviceReadMemory>& read_memory() {
  constexpr std::uint64_t kKeptBytes = std::uint64_t{128} << 20;
  static const auto& memory =
      *new std::shared_ptr<DeviceReadMemory>(std::make_shared<DeviceReadMemory>(kKeptBytes));
  return memory;
}

/// The caller's streams: numbers of devices, and handles.
using Streams = std::vector<std::pair<std::int32_t, std::uintptr_t>>;

void read_all(const OpenCheckpoint& self, const nb::list& targets, const Streams& streams) {
  const std::vector<ReadTarget> wanted = read_targets_of(targets);
  CheckpointReader::ReadOptions options;
  for (const auto& [device, handle] : streams)
    options.devices.streams.emplace_back(device, reinterpret_cast<void*>(handle));
  options.devices.memory = read_memory();
  const CheckpointReader& reader = reader_of(self);
  // Short reads are not worth a thread.
  std::uint64_t size_bytes = 0;
  for (const ReadTarget& target : wanted)
    if (const TensorInfo* tensor = reader.find(target.name)) size_bytes += tensor->size_bytes;
  constexpr std::uint64_t kShortBytes = std::uint64_t{64} << 20;
  if (size_bytes < kShortBytes) {
    raise_if_damaged(without_gil([&] { return reader.read_all(wanted, options); }),
                     reader.directory());
    return;
  }
  raise_if_damaged(interruptible([&](std::stop_token stop) {
                     options.stop = std::move(stop);
                     return reader.read_all(wanted, options);
                   }),
                   reader.directory());
}

nb::list list_steps(const nb::bytes& directory, bool for_newest) {
  CatalogReader reader(open_directory(directory));
  const Catalog catalog = value_or_raise(
      without_gil([&] { return for_newest ? reader.list_newest() : reader.list(); }));
  nb::list out;
  for (const CatalogStep& step : catalog.steps) {
    nb::object damage = nb::none();
    if (!step.is_valid()) damage = text_of(std::string(step.problem.message()));
    out.append(nb::make_tuple(text_of(step.name), step.parsed.step, step.is_superseded(),
                              step.generation, damage, step.is_valid() ? step.summary->line : ""));
  }
  return out;
}

nb::list list_metrics(const nb::bytes& directory) {
  const CheckpointDirectory opened = open_directory(directory);
  const std::set<std::string> metrics =
      value_or_raise(without_gil([&]() -> Result<std::set<std::string>> {
        STOKER_ASSIGN(const Catalog catalog, list_checkpoints(opened));
        STOKER_ASSIGN(const AllNotes notes, read_all_notes(opened));
        return metrics_of(catalog, notes);
      }));
  nb::list out;
  for (const std::string& name : metrics) out.append(text_of(name));
  return out;
}

/// For tests: a crash point, and at which of its occurrences the process is killed.
using KillAt = std::pair<std::string, std::uint32_t>;

/// One instance per process, so that it counts across calls.
FileOps& ops_for_notes(const KillAt& kill_at) {
  if (kill_at.first.empty()) return posix_file_ops();
  static const std::unique_ptr<FileOps> killing =
      make_killing_file_ops(kill_at.first, kill_at.second);
  return *killing;
}

void bind_notes(nb::module_& module) {
  module.def(
      "annotate_checkpoint",
      [](const nb::bytes& directory, std::uint64_t step, std::uint64_t generation,
         const std::string& line, const std::map<std::string, double>& values,
         const KillAt& kill_at) {
        const CheckpointDirectory opened = open_directory(directory, ops_for_notes(kill_at));
        raise_if_failed(without_gil(
            [&] { return annotate_checkpoint(opened, step, generation, values, line); }));
      },
      "directory"_a, "step"_a, "generation"_a, "line"_a, "values"_a, "kill_at"_a);
  module.def(
      "pin_checkpoint",
      [](const nb::bytes& directory, std::uint64_t step, std::uint64_t generation,
         const std::string& line, bool is_pinned, const KillAt& kill_at) {
        const CheckpointDirectory opened = open_directory(directory, ops_for_notes(kill_at));
        raise_if_failed(
            without_gil([&] { return pin_checkpoint(opened, step, generation, is_pinned, line); }));
      },
      "directory"_a, "step"_a, "generation"_a, "line"_a, "is_pinned"_a, "kill_at"_a);
}

}  // namespace

void bind_checkpoint_read(nb::module_& module) {
  nb::class_<OpenCheckpoint>(module, "OpenCheckpoint", "One checkpoint, open for reading.")
      .def(nb::new_(&open_checkpoint), "directory"_a, "through_cache"_a = false)
      .def_prop_ro("directory",
                   [](const OpenCheckpoint& self) { return text_of(reader_of(self).directory()); })
      .def_prop_ro("step", [](const OpenCheckpoint& self) { return manifest_of(self).step; })
      .def_prop_ro("generation",
                   [](const OpenCheckpoint& self) { return manifest_of(self).generation; })
      .def_prop_ro("line", [](const OpenCheckpoint& self) { return manifest_of(self).line; })
      .def_prop_ro("world_size",
                   [](const OpenCheckpoint& self) { return manifest_of(self).world_size; })
      .def_prop_ro("time_s", [](const OpenCheckpoint& self) { return manifest_of(self).time_s; })
      .def_prop_ro("reference",
                   [](const OpenCheckpoint& self) { return manifest_of(self).reference; })
      .def_prop_ro("extra", [](const OpenCheckpoint& self) { return manifest_of(self).extra_json; })
      .def_prop_ro("cursor",
                   [](const OpenCheckpoint& self) { return manifest_of(self).cursor_json; })
      .def_prop_ro(
          "state", [](const OpenCheckpoint& self) { return manifest_of(self).state_json; },
          "The tree of each rank, as JSON.")
      .def("tensors", &tensors_of,
           nb::sig("def tensors(self) -> list[tuple[str, str, tuple[int, ...]]]"),
           "Returns name, type and shape of each tensor.")
      .def("choose_names", &choose_names, "only"_a, "rank"_a = nb::none(),
           nb::sig("def choose_names(self, only: list[str], rank: int | None = None) -> "
                   "list[tuple[str, str]]"),
           "Returns the tensors whose names in the trees, or in those of a rank, begin with one of "
           "`only`: that name, and the stored one.")
      .def("digests", &digests_of, "names"_a,
           nb::sig("def digests(self, names: list[str]) -> dict[str, str]"),
           "Returns the XXH3-128 of the bytes of each tensor.")
      .def("read_all", &read_all, "targets"_a, "streams"_a = nb::list(),
           nb::sig("def read_all(self, targets: list[tuple[Any, ...]], "
                   "streams: list[tuple[int, int]] = []) -> None"),
           "Reads tensors into memory. Each target: name, box or None, address, strides or None, "
           "(address, size) of all memory, and the number of its CUDA device if it has one. "
           "Streams: device and handle of those whose work comes before.");
  module.def("open_safetensors", &open_safetensors, "paths"_a, "through_cache"_a = false,
             nb::sig("def open_safetensors(paths: list[bytes], through_cache: bool = False) -> "
                     "OpenCheckpoint"),
             "Opens safetensors files of any program together, as a checkpoint without checksums.");
  module.def(
      "list_checkpoints", &list_steps, "directory"_a, "for_newest"_a = false,
      nb::sig("def list_checkpoints(directory: bytes, for_newest: bool = False) -> "
              "list[tuple[str, int, bool, int, str | None, str]]"),
      "Lists checkpoints, newest first: name, step, superseded, generation, damage, line. "
      "`for_newest` reads the newest one's manifest again instead of trusting the catalog file.");
  module.def(
      "is_dataset",
      [](const nb::bytes& directory) {
        const std::string path = path_of(directory);
        return without_gil([&] { return is_dataset(posix_file_ops(), path); });
      },
      "directory"_a, nb::sig("def is_dataset(directory: bytes) -> bool"),
      "Whether the directory's manifest.json is that of a dataset.");
  module.def("checkpoint_metrics", &list_metrics, "directory"_a,
             nb::sig("def checkpoint_metrics(directory: bytes) -> list[str]"),
             "Returns the names of the values that checkpoints have, for keep_best.");
  bind_notes(module);
}

}  // namespace stoker::python
