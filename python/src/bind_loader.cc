#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bind.h"
#include "dataset/loader/batch_maker.h"
#include "dataset/loader/extra_samples.h"
#include "dataset/loader/loader_run.h"
#include "loader_report.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

constexpr std::array kFieldKinds = {FieldKind::own,   FieldKind::bytes,   FieldKind::text,
                                    FieldKind::int64, FieldKind::float64, FieldKind::boolean,
                                    FieldKind::json,  FieldKind::array,   FieldKind::ragged,
                                    FieldKind::pad,   FieldKind::tokens};

FieldKind parse_field_kind(std::string_view name) {
  for (const FieldKind kind : kFieldKinds)
    if (field_kind_name(kind) == name) return kind;
  throw nb::value_error("no such kind of field");
}

constexpr std::array<std::string_view, 3> kJsonTypes = {"int64", "float64", "text"};

JsonType parse_json_type(std::string_view name) {
  const auto found = std::ranges::find(kJsonTypes, name);
  if (found == kJsonTypes.end()) throw nb::value_error("no such type of JSON value");
  return static_cast<JsonType>(found - kJsonTypes.begin());
}

nanoseconds seconds_of(double seconds) {
  return std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
}

/// A loader that can be closed while other threads wait in it. The GIL guards the pointer, and is
/// never held during slow work.
class LoaderHandle {
 public:
  explicit LoaderHandle(std::unique_ptr<LoaderRun> loader) : loader_(std::move(loader)) {}
  LoaderHandle(const LoaderHandle&) = delete;
  LoaderHandle& operator=(const LoaderHandle&) = delete;
  ~LoaderHandle() { close(); }

  /// Returns null if the loader is closed.
  std::shared_ptr<LoaderRun> find() const { return loader_; }
  std::shared_ptr<LoaderRun> get() const {
    if (!loader_) throw nb::value_error("this loader is closed");
    return loader_;
  }
  /// The last owner of the loader joins its threads.
  void close() {
    if (std::shared_ptr<LoaderRun> mine = std::move(loader_)) {
      const ReleasedGil nogil;
      mine->stop();
      mine.reset();
    }
  }

 private:
  std::shared_ptr<LoaderRun> loader_;
};

/// What next() returns instead of a batch.
enum class NoBatch : std::uint8_t { end, timeout, stopped };

/// Returns the exception that raise_for_batch() raises for a `status` that is not OK.
nb::object error_of(const Status& status) {
  try {
    raise_for_batch(status);
  } catch (const nb::python_error& raised) {
    const nb::object value = nb::borrow(raised.value());
    if (PyExceptionInstance_Check(value.ptr()) != 0) return value;
    // Before 3.12, Python creates the instance later, from these arguments.
    const nb::object type = nb::borrow(raised.type());
    return nb::isinstance<nb::tuple>(value) ? type(*value) : type(value);
  }
  return nb::none();
}

/// Python runs signal handlers as soon as a call has returned, and an exception of one would
/// discard the returned value. So a batch, or its error, is appended to `into`, a list of the
/// caller.
nb::object next(const LoaderHandle& handle, double timeout_s, nb::list into) {
  NextBatch next;
  if (std::shared_ptr<LoaderRun> loader = handle.find()) {
    const ReleasedGil nogil;
    next = loader->next(deadline_after(seconds_of(timeout_s)));
    loader.reset();  // without the GIL: the last owner joins the threads
  } else {
    return nb::cast(NoBatch::stopped);
  }
  switch (next.kind) {
    case NextBatch::Kind::batch: into.append(nb::cast(std::move(next.batch))); break;
    case NextBatch::Kind::end: return nb::cast(NoBatch::end);
    case NextBatch::Kind::timeout: return nb::cast(NoBatch::timeout);
    case NextBatch::Kind::stopped: return nb::cast(NoBatch::stopped);
    case NextBatch::Kind::memory_held:
      PyErr_SetString(PyExc_BufferError, std::string(next.status.message()).c_str());
      throw nb::python_error();
    case NextBatch::Kind::failed: into.append(error_of(next.status)); break;
  }
  return nb::none();
}

void bind_field_spec(nb::module_& module) {
  nb::class_<FieldSpec>(module, "FieldSpec", "One column of a batch.")
      .def(
          "__init__",
          [](FieldSpec* self, const std::string& name, const std::string& kind,
             const std::string& field) {
            new (self) FieldSpec{.name = name, .kind = parse_field_kind(kind), .field = field};
          },
          "name"_a, "kind"_a, "field"_a = "")
      .def_rw("json_path", &FieldSpec::json_path)
      .def_prop_rw(
          "json_type",
          [](const FieldSpec& self) {
            return std::string(kJsonTypes[static_cast<std::size_t>(self.json_type)]);
          },
          [](FieldSpec& self, const std::string& name) { self.json_type = parse_json_type(name); })
      .def_prop_rw(
          "dtype",
          [](const FieldSpec& self) {
            return self.dtype ? std::string(dtype_name(*self.dtype)) : std::string();
          },
          [](FieldSpec& self, const std::string& name) {
            self.dtype = value_or_raise(parse_dtype(name));
          })
      .def_rw("shape", &FieldSpec::shape)
      .def_rw("pad_length", &FieldSpec::pad_length)
      .def_rw("pad_value", &FieldSpec::pad_value)
      .def_rw("pad_cut", &FieldSpec::pad_cut);
}

Batch read_extra(const ExtraSamples& extra, std::uint64_t epoch,
                 const std::vector<std::uint64_t>& positions,
                 const std::vector<std::uint32_t>& datasets,
                 const std::vector<std::uint64_t>& samples) {
  if (datasets.size() != samples.size()) throw nb::value_error("a dataset for each sample");
  std::vector<SampleRef> refs;
  for (std::size_t i = 0; i < samples.size(); ++i)
    refs.push_back({.dataset = datasets[i], .sample = samples[i]});
  Result<Batch> batch = without_gil([&] { return extra.read(epoch, positions, refs); });
  raise_for_batch(batch.status());
  return *std::move(batch);
}

void bind_extra_samples(nb::module_& module) {
  nb::class_<ExtraSamples>(module, "ExtraSamples", "Reads samples that replace others.")
      .def("read", &read_extra, "epoch"_a, "positions"_a, "datasets"_a, "samples"_a,
           "Returns a batch of these samples, in separate memory.");
  module.def(
      "extra_samples",
      [](const LoaderRunOptions& options) {
        Result<std::unique_ptr<ExtraSamples>> made =
            without_gil([&] { return ExtraSamples::make(options); });
        raise_for_batch(made.status());
        return *std::move(made);
      },
      "options"_a, "Returns ExtraSamples for a run with these options.");
  module.def("replacement_sample", &internal::replacement_sample, "seed"_a, "epoch"_a, "position"_a,
             "attempt"_a, "count"_a,
             "Returns which of `count` samples replaces the one at a position, at this attempt.");
}

}  // namespace

void bind_loader(nb::module_& module) {
  bind_field_spec(module);
  nb::class_<LoaderRunOptions>(module, "LoaderOptions", "The options of a run: see LoaderSetup.");
  bind_extra_samples(module);
  nb::enum_<NoBatch>(module, "NoBatch", "What Loader.next() returns if it has no batch.")
      .value("end", NoBatch::end)
      .value("timeout", NoBatch::timeout)
      .value("stopped", NoBatch::stopped);
  nb::class_<LoaderHandle>(module, "Loader", "One run of batches. Use stoker.Loader.")
      .def(
          "__init__",
          [](LoaderHandle* self, const LoaderRunOptions& options) {
            Result<std::unique_ptr<LoaderRun>> started =
                without_gil([&] { return LoaderRun::start(options); });
            raise_for_batch(started.status());
            new (self) LoaderHandle(*std::move(started));
          },
          "options"_a)
      .def("next", &next, "timeout_s"_a, "into"_a,
           nb::sig("def next(self, timeout_s: float, into: list[Batch | Exception]) -> NoBatch | "
                   "None"),
           "Appends the next batch, or the error in its place, to `into`; otherwise returns why "
           "there is none. BufferError if the caller's batches occupy the memory: try again.")
      .def("close", &LoaderHandle::close, "Ends the run. Batches stay valid.")
      .def(
          "stats", [](const LoaderHandle& self) { return report_stats(self.get()->stats()); },
          nb::sig("def stats(self) -> dict[str, Any]"));
}

}  // namespace stoker::python
