#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
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
#include "dataset/input/import_kind.h"
#include "import_session.h"
#include "ingest_arguments.h"
#include "raise.h"
#include "stoker/units.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using Sizes = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

/// The plan of an import, in one argument.
struct ImportOptions {
  PackOptions pack;
  ImportedRows rows;
};

std::unique_ptr<ImportSession> open_import(const std::string& directory,
                                           const ImportOptions& options, const nb::list& first) {
  const std::vector<IngestedSample> samples = to_samples(first);
  if (samples.size() != 1) throw nb::value_error("first: a list of one sample");
  return value_or_raise(without_gil([&] {
    return ImportSession::open(posix_file_ops(), directory, options.pack, options.rows,
                               samples.front());
  }));
}

nb::ndarray<nb::numpy, std::uint64_t, nb::ndim<1>> order_of(const ImportSession& self,
                                                            std::uint64_t shard) {
  if (shard >= self.session().plan().job.shard_count) throw nb::index_error("no such shard");
  const std::span<const std::uint64_t> samples = self.session().plan().samples_of(shard);
  auto* const copy = new std::vector<std::uint64_t>(samples.begin(), samples.end());
  const nb::capsule owner(
      copy, [](void* it) noexcept { delete static_cast<std::vector<std::uint64_t>*>(it); });
  return {copy->data(), {copy->size()}, owner};
}

void bind_options(nb::module_& module) {
  nb::class_<ImportOptions>(module, "ImportOptions", "Use stoker.pack.")
      .def(nb::init<>())
      .def_prop_rw(
          "format", [](const ImportOptions& self) { return self.pack.plan.format; },
          [](ImportOptions& self, std::string value) { self.pack.plan.format = std::move(value); })
      .def_prop_rw(
          "prefix", [](const ImportOptions& self) { return self.pack.plan.prefix; },
          [](ImportOptions& self, std::string value) { self.pack.plan.prefix = std::move(value); })
      .def(
          "set_shards",
          [](ImportOptions& self, std::uint64_t samples, std::uint64_t size_bytes) {
            self.pack.plan.samples_per_shard = samples;
            self.pack.plan.shard_bytes = size_bytes;
          },
          "samples"_a, "size_bytes"_a)
      .def(
          "set_shuffle_seed",
          [](ImportOptions& self, std::uint64_t seed) { self.pack.plan.shuffle_seed = seed; },
          "seed"_a)
      .def(
          "set_task",
          [](ImportOptions& self, std::uint64_t task, std::uint64_t count) {
            self.pack.task = task;
            self.pack.task_count = count;
          },
          "task"_a, "count"_a)
      .def(
          "set_rows",
          [](ImportOptions& self, std::uint64_t count, std::uint64_t mean_bytes,
             std::string fingerprint) {
            self.rows.count = count;
            self.rows.mean_bytes = mean_bytes;
            self.rows.fingerprint = std::move(fingerprint);
          },
          "count"_a, "mean_bytes"_a, "fingerprint"_a)
      .def(
          "set_sizes",
          [](ImportOptions& self, const Sizes& sizes) {
            self.rows.sizes_bytes.assign(sizes.data(), sizes.data() + sizes.size());
          },
          "sizes"_a, nb::sig("def set_sizes(self, sizes: NDArray[Any]) -> None"));
}

void bind_session(nb::module_& module) {
  nb::class_<ImportShard>(module, "ImportShard", "Use stoker.pack.")
      .def(
          "append",
          [](ImportShard& self, const nb::list& list) {
            const std::vector<IngestedSample> samples = to_samples(list);
            raise_if_failed(without_gil([&] { return self.append(samples); }));
          },
          "samples"_a,
          nb::sig("def append(self, samples: list[tuple[str, list[tuple[str, str, str, "
                  "tuple[int, ...], bytes]]]]) -> None"))
      .def("finish",
           [](ImportShard& self) { raise_if_failed(without_gil([&] { return self.finish(); })); })
      .def("abandon", [](ImportShard& self) { without_gil([&] { self.abandon(); }); });
  nb::class_<ImportSession>(module, "ImportSession", "Use stoker.pack.")
      .def_prop_ro("finished", [](const ImportSession& self) { return self.session().finished(); })
      .def_prop_ro("shard_count",
                   [](const ImportSession& self) { return self.session().shards().size(); })
      .def_prop_ro("sample_count",
                   [](const ImportSession& self) {
                     std::uint64_t count = 0;
                     for (const std::uint64_t shard : self.session().shards())
                       count += self.session().plan().samples_of(shard).size();
                     return count;
                   })
      .def("find_pending",
           [](ImportSession& self) {
             return value_or_raise(without_gil([&] { return self.find_pending(); }));
           })
      .def(
          "range",
          [](const ImportSession& self, std::uint64_t shard) {
            const PackPlan& plan = self.session().plan();
            if (shard >= plan.job.shard_count) throw nb::index_error("no such shard");
            return std::pair(plan.cuts[shard], plan.cuts[shard + 1]);
          },
          "shard"_a, "Returns the first and the end position of a shard in the dataset.")
      .def("order", &order_of, "shard"_a, "Returns the rows of a shard, in order.",
           nb::sig("def order(self, shard: int) -> NDArray[numpy.uint64]"))
      .def(
          "begin_shard",
          [](ImportSession& self, std::uint64_t shard) {
            return value_or_raise(without_gil([&] { return self.begin_shard(shard); }));
          },
          "shard"_a)
      .def("close",
           [](ImportSession& self) {
             return value_or_raise(without_gil([&] { return self.close(); }));
           })
      .def("withdraw", [](ImportSession& self) { without_gil([&] { self.withdraw(); }); });
}

}  // namespace

void bind_import(nb::module_& module) {
  bind_options(module);
  bind_session(module);
  module.def(
      "open_import", &open_import, "directory"_a, "options"_a, "first"_a,
      nb::sig("def open_import(directory: str, options: ImportOptions, first: list[tuple[str, "
              "list[tuple[str, str, str, tuple[int, ...], bytes]]]]) -> ImportSession"));
  module.def("import_kind_of", &import_kind_of, "path"_a,
             "Returns \"parquet\", \"arrow\", \"hdf5\", \"lmdb\", or \"\".");
  module.def("format_bytes", &format_bytes, "count"_a, "Returns a text such as \"1.5 GiB\".");
  module.def("format_rate", &format_rate, "bytes_per_second"_a,
             "Returns a text such as \"4.97 GB/s\".");
  module.def("format_count", &format_count, "count"_a, "Returns a text such as \"174k\".");
}

}  // namespace stoker::python
