#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind.h"
#include "dataset/loader/loader_setup.h"
#include "loader_report.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using Items = nb::ndarray<const std::uint64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

std::vector<std::uint64_t> vector_of(const Items& items) {
  return {items.data(), items.data() + items.size()};
}

/// Converts a tuple (first, step, count), an array of samples, or None.
std::optional<Selection> selection_of(nb::handle selection) {
  if (selection.is_none()) return std::nullopt;
  if (!nb::isinstance<nb::tuple>(selection)) return vector_of(nb::cast<Items>(selection));
  const auto slice = nb::borrow<nb::tuple>(selection);
  return SampleSlice{.first = nb::cast<std::uint64_t>(slice[0]),
                     .step = nb::cast<std::int64_t>(slice[1]),
                     .count = nb::cast<std::uint64_t>(slice[2])};
}

nanoseconds seconds_of(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

void bind_part(nb::module_& module) {
  nb::class_<LoaderPart>(module, "LoaderPart", "A dataset that a loader reads.")
      .def(
          "__init__",
          [](LoaderPart* self, const std::shared_ptr<ShardDataset>& dataset,
             const std::shared_ptr<TokenWindows>& windows, const std::shared_ptr<TokenBins>& packs,
             std::uint64_t pad, const nb::object& selection, std::optional<double> weight) {
            new (self) LoaderPart{.dataset = dataset,
                                  .windows = windows,
                                  .packs = packs,
                                  .pad = pad,
                                  .selection = selection_of(selection),
                                  .weight = weight};
          },
          "dataset"_a, "windows"_a.none(), "packs"_a.none(), "pad"_a, "selection"_a.none(),
          "weight"_a.none(),
          nb::sig("def __init__(self, dataset: Dataset, windows: TokenWindows | None, packs: "
                  "TokenBins | None, pad: int, selection: tuple[int, int, int] | "
                  "NDArray[numpy.uint64] | None, weight: float | None) -> None"))
      .def_prop_ro(
          "fingerprint",
          [](const LoaderPart& self) {
            return without_gil([&] { return self.fingerprint(); }).hex();
          },
          "Identifies the samples and their order.")
      .def_prop_ro(
          "old_fingerprint",
          [](const LoaderPart& self) {
            return without_gil([&] { return self.old_fingerprint(); }).hex();
          },
          "The fingerprint as version 0.1 computed it.");
}

void set_tail(LoaderRequest& request, const std::optional<std::string>& name) {
  request.tail.reset();
  if (name) request.tail = value_or_raise(parse_tail(*name));
}

void set_on_error(LoaderRequest& request, const std::string& name) {
  if (name != "raise" && name != "skip") throw nb::value_error(R"(on_error is "raise" or "skip")");
  request.on_error = name == "skip" ? OnError::skip : OnError::raise;
}

/// Names and meanings are those of LoaderRequest in loader_setup.h.
void bind_request(nb::module_& module) {
  nb::class_<LoaderRequest>(module, "LoaderRequest", "The settings that a loader is asked for.")
      .def(
          "__init__",
          [](LoaderRequest* self, const std::vector<LoaderPart>& parts, const OrderOptions& order) {
            new (self) LoaderRequest{.parts = parts, .order = order, .end_epoch = std::nullopt};
          },
          "parts"_a, "order"_a)
      .def(
          "set_items",
          [](LoaderRequest& self, const Items& items, bool per_epoch) {
            self.items = vector_of(items);
            self.has_items_per_epoch = per_epoch;
          },
          "items"_a, "per_epoch"_a,
          nb::sig("def set_items(self, items: NDArray[numpy.uint64], per_epoch: bool) -> None"))
      .def_rw("batch_size", &LoaderRequest::batch_size)
      .def_rw("global_batch_size", &LoaderRequest::global_batch_size)
      .def_rw("micro_batch_size", &LoaderRequest::micro_batch_size)
      .def_rw("rank", &LoaderRequest::rank)
      .def_rw("world_size", &LoaderRequest::world_size)
      .def_rw("local_world_size", &LoaderRequest::local_world_size)
      .def("set_tail", &set_tail, "name"_a.none())
      .def_rw("memory_bytes", &LoaderRequest::memory_bytes, nb::arg().none())
      .def_rw("fields", &LoaderRequest::fields)
      .def("set_on_error", &set_on_error, "name"_a)
      .def_rw("threads", &LoaderRequest::threads)
      .def_rw("depth", &LoaderRequest::depth)
      .def(
          "set_engine",
          [](LoaderRequest& self, const std::string& name) {
            self.engine = value_or_raise(parse_engine_kind(name));
          },
          "name"_a)
      .def(
          "set_held_limits",
          [](LoaderRequest& self, double warning_s, double limit_s) {
            self.held_warning = seconds_of(warning_s);
            self.held_limit = seconds_of(limit_s);
          },
          "warning_s"_a, "limit_s"_a);
}

LoaderSetup make_setup(const LoaderRequest& request) {
  Result<LoaderSetup> made = without_gil([&] { return LoaderSetup::make(request); });
  raise_for_batch(made.status());
  return *std::move(made);
}

void resume(LoaderSetup& setup, const Cursor& saved, const std::vector<std::string>& allow) {
  const std::vector<std::string_view> allowed(allow.begin(), allow.end());
  raise_if_failed(without_gil([&] { return setup.resume(saved, allowed); }));
}

}  // namespace

void bind_loader_setup(nb::module_& module) {
  bind_part(module);
  bind_request(module);
  nb::class_<LoaderSetup>(module, "LoaderSetup", "A loader that can run from any of its cursors.")
      .def_static("make", &make_setup, "request"_a,
                  "Checks the settings and fills in the rest. May read a sample.")
      .def_prop_ro("cache_forecast", &LoaderSetup::cache_forecast,
                   "What an epoch will read from the source, in words; empty without a cache.")
      .def("cursor", &LoaderSetup::cursor, "epoch"_a, "position"_a, "Returns a cursor of this run.")
      .def("wanted", &LoaderSetup::wanted, "saved"_a,
           "Returns a cursor of this run in which settings that were not asked for, or that "
           "`saved` lacks, are open.")
      .def("resume", &resume, "saved"_a, "allow"_a, "Takes the open settings from a cursor.")
      .def(
          "set_items",
          [](LoaderSetup& self, const Items& items) {
            raise_if_failed(self.set_items(vector_of(items)));
          },
          "items"_a, nb::sig("def set_items(self, items: NDArray[numpy.uint64]) -> None"),
          "Sets another list, for another epoch.")
      .def(
          "options_at",
          [](const LoaderSetup& self, const Cursor& cursor) {
            return value_or_raise(self.options_at(cursor));
          },
          "cursor"_a, "Returns the options of a run from there on.")
      .def_prop_ro("order",
                   [](const LoaderSetup& self) {  // Python binds only its const methods
                     return std::const_pointer_cast<SampleOrder>(self.order());
                   })
      .def_prop_ro("cut", [](const LoaderSetup& self) { return self.cut(); })
      .def_prop_ro("memory_needed", &LoaderSetup::memory_needed)
      .def_prop_ro("memory_bytes", &LoaderSetup::memory_bytes)
      .def_prop_ro_static("memory_default_bytes",
                          [](nb::handle) { return LoaderSetup::kMemoryDefaultBytes; });
}

}  // namespace stoker::python
