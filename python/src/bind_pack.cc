#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bind.h"
#include "dataset/input/input.h"
#include "dataset/pack/field_losses.h"
#include "dataset/pack/ingest_writer.h"
#include "dataset/pack/pack.h"
#include "dataset/pack/pack_paths.h"
#include "formats/table/shard_formats.h"
#include "ingest_arguments.h"
#include "raise.h"
#include "stoker/units.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// Files to pack, after scanning.
struct PackFiles {
  std::unique_ptr<PackInput> input;
};

std::unique_ptr<PackFiles> open_pack_files(const std::string& path, const std::string& kind,
                                           const std::string& dtype, std::uint64_t sequence_length,
                                           const std::string& destination, bool hidden,
                                           const std::string& classes) {
  PackInputOptions options{.kind = kind,
                           .sequence_length = sequence_length,
                           .excluded_directory = destination,
                           .with_hidden = hidden,
                           .classes = classes};
  if (!dtype.empty()) options.dtype = value_or_raise(parse_dtype(dtype));
  return std::make_unique<PackFiles>(PackFiles{value_or_raise(
      interruptible([&](std::stop_token /*stop*/) { return open_input(path, options); }))});
}

PackReport pack_files(const PackFiles& files, const std::string& directory,
                      const std::string& format, std::uint64_t samples_per_shard,
                      const std::string& shard_size, std::optional<std::uint64_t> shuffle_seed,
                      unsigned threads, std::uint64_t task, std::uint64_t task_count) {
  PackOptions options;
  options.plan.format = format;
  options.plan.samples_per_shard = samples_per_shard;
  if (!shard_size.empty()) options.plan.shard_bytes = value_or_raise(parse_bytes(shard_size));
  options.plan.shuffle_seed = shuffle_seed;
  options.thread_count = threads;
  options.task = task;
  options.task_count = task_count;
  return value_or_raise(interruptible([&](std::stop_token stop) {
    options.stop = std::move(stop);
    return pack(posix_file_ops(), *files.input, directory, options);
  }));
}

std::string to_repr(const PackReport& self) {
  return "PackReport(format='" + self.format +
         "', shard_count=" + std::to_string(self.shard_count) +
         ", sample_count=" + std::to_string(self.sample_count) +
         ", size_bytes=" + std::to_string(self.size_bytes) +
         ", shards_found=" + std::to_string(self.shards_found) +
         ", is_complete=" + (self.is_complete ? "True" : "False") + ")";
}

}  // namespace

void bind_pack(nb::module_& module) {
  nb::class_<PackReport>(module, "PackReport", "The result of pack() and ingest().")
      .def_ro("format", &PackReport::format)
      .def_ro("shard_count", &PackReport::shard_count)
      .def_ro("sample_count", &PackReport::sample_count)
      .def_ro("size_bytes", &PackReport::size_bytes)
      .def_ro("shards_found", &PackReport::shards_found, "Shards that an earlier run had finished.")
      .def_ro("is_complete", &PackReport::is_complete, "Whether the manifest is written.")
      .def_prop_ro(
          "remarks", [](const PackReport& self) { return remarks_on(self.losses); },
          "Warnings: what the format does not store of some fields.")
      .def("__repr__", &to_repr);
  nb::class_<PackFiles>(module, "PackFiles", "Use stoker.pack.")
      .def_prop_ro("remarks", [](const PackFiles& self) { return remarks_on(*self.input); })
      .def("pack", &pack_files, "directory"_a, "format"_a, "samples_per_shard"_a, "shard_size"_a,
           "shuffle_seed"_a.none(), "threads"_a, "task"_a, "task_count"_a);
  module.def(
      "check_apart",
      [](const std::string& source, const std::string& destination) {
        raise_if_failed(check_apart(source, destination));
      },
      "source"_a, "destination"_a, "Raises ValueError if one of the two is inside the other.");
  module.def("open_pack_files", &open_pack_files, "path"_a, "kind"_a, "dtype"_a,
             "sequence_length"_a, "destination"_a, "hidden"_a, "classes"_a, "Use stoker.pack.");
  module.def(
      "merge_pack",
      [](const std::string& directory) {
        return value_or_raise(without_gil([&] { return merge_pack(posix_file_ops(), directory); }));
      },
      "directory"_a, "Combines the results of all tasks of one pack.");
  module.def(
      "parse_bytes", [](const std::string& text) { return value_or_raise(parse_bytes(text)); },
      "text"_a, "Parses a size such as \"256MiB\".");
  nb::class_<IngestWriter>(module, "IngestWriter", "Use stoker.ingest.")
      .def(
          "write_shard",
          [](IngestWriter& self, const nb::list& list) {
            const std::vector<IngestedSample> samples = to_samples(list);
            raise_if_failed(without_gil([&] { return self.write_shard(samples); }));
          },
          "samples"_a,
          nb::sig("def write_shard(self, samples: list[tuple[str, list[tuple[str, str, str, "
                  "tuple[int, ...], bytes]]]]) -> None"))
      .def("abandon", &IngestWriter::abandon, "Removes everything that was written.")
      .def("finish", [](IngestWriter& self) {
        return value_or_raise(without_gil([&] { return self.finish(); }));
      });
  module.def(
      "written_formats",
      [] {
        std::vector<std::pair<std::string, bool>> formats;
        for (const ShardFormat* const format : shard_formats())
          if (!format->written_as.empty())
            formats.emplace_back(format->written_as, format->is_array);
        return formats;
      },
      "Returns the formats that can be written, and whether their samples are single arrays.");
  module.def("pack_kinds", &pack_kinds, "Returns all kinds of data that can be packed.");
  module.def(
      "make_ingest_writer",
      [](const std::string& directory, const std::string& format) {
        return value_or_raise(
            without_gil([&] { return IngestWriter::make(posix_file_ops(), directory, format); }));
      },
      "directory"_a, "format"_a);
}

}  // namespace stoker::python
