#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "array_object.h"
#include "batch_values.h"
#include "bind.h"
#include "bytes_column.h"
#include "dataset/batch/batch_data.h"
#include "dataset/input/input.h"
#include "raise.h"
#include "sample_object.h"
#include "stoker/batch.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using OwnedBatch = nb::handle_t<Batch>;
using Bytes = std::span<const std::byte>;

const Batch& batch_of(OwnedBatch self) {
  return nb::cast<const Batch&>(self);
}

std::string_view text_of(Bytes bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

nb::object text_list(std::span<const Bytes> views) {
  nb::list out;
  for (const Bytes& view : views) out.append(make_str(text_of(view)));
  return out;
}

const Column& find_column(const Batch& batch, std::string_view name) {
  const Column* column = batch.find(name);
  if (column == nullptr) throw nb::key_error(std::string(name).c_str());
  return *column;
}

/// The owner of the batch may change its arrays: nothing else uses them.
std::span<std::byte> writable(Bytes bytes) {
  return {const_cast<std::byte*>(bytes.data()), bytes.size()};
}

nb::object int64_view(std::span<const std::uint64_t> numbers, nb::handle owner) {
  const std::uint64_t size = numbers.size();
  return make_writable_array(writable(std::as_bytes(numbers)), Dtype::int64, {&size, 1}, owner);
}

nb::object column(OwnedBatch self, std::string_view name) {
  const Column& found = find_column(batch_of(self), name);
  if (found.layout == Column::Layout::views) {
    if (found.is_text) return text_list(found.views);
    return nb::cast(BytesColumn{.batch = nb::borrow(self),
                                .views = found.views,
                                .memory = internal::BatchInside::record_memory(batch_of(self))});
  }
  const nb::object values =
      make_writable_array(writable(found.data), found.dtype, found.shape, self);
  if (found.layout == Column::Layout::array) return values;
  return nb::make_tuple(values, int64_view(found.offsets, self));
}

nb::tuple names(const Batch& batch) {
  nb::list out;
  for (const Column& found : batch.columns())
    if (found.name != kKeyField) out.append(make_str(found.name));
  return nb::tuple(out);
}

nb::object keys(const Batch& batch) {
  // Formats without keys may store the key in a field of this name.
  if (const Column* field = batch.find(kKeyField);
      field != nullptr && field->layout == Column::Layout::views)
    return text_list(field->views);
  nb::list out;
  for (std::size_t i = 0; i < batch.size(); ++i) out.append(make_str(batch.key(i)));
  return out;
}

nb::tuple samples(const Batch& batch) {
  std::vector<std::uint64_t> datasets;
  std::vector<std::uint64_t> numbers;
  for (const SampleRef& ref : batch.samples()) {
    datasets.push_back(ref.dataset);
    numbers.push_back(ref.sample);
  }
  return nb::make_tuple(make_int64_array(datasets), make_int64_array(numbers));
}

nb::object valid(OwnedBatch self) {
  const std::span<const std::uint8_t> flags = batch_of(self).valid();
  const std::uint64_t size = flags.size();
  return make_writable_array(writable(std::as_bytes(flags)), Dtype::boolean, {&size, 1}, self);
}

}  // namespace

void bind_batch(nb::module_& module) {
  bind_bytes_column(module);
  nb::class_<Batch>(module, "Batch",
                    "A batch in the loader's memory, which the batch and its columns keep. "
                    "stoker.Batch is the dict made from it.")
      .def("__len__", &Batch::size)
      .def_prop_ro("names", &names, nb::sig("def names(self) -> tuple[str, ...]"))
      .def("column", &column, "name"_a, nb::sig("def column(self, name: str) -> Any"),
           "Returns an array, a BytesColumn, a list of str, or for ragged fields values and "
           "offsets.")
      .def(
          "values",
          [](OwnedBatch self, std::string_view name) {
            return batch_values(self, find_column(batch_of(self), name));
          },
          "name"_a, nb::sig("def values(self, name: str) -> tuple[Any, str] | None"),
          "For a batch without named fields: returns a field as stoker.Dataset does, and its kind: "
          "\"bytes\", \"values\", \"numbers\" or \"mixed\".")
      .def(
          "presence",
          [](const Batch& self, std::string_view name) {
            return batch_presence(find_column(self, name));
          },
          "name"_a, nb::sig("def presence(self, name: str) -> list[bool] | None"),
          "Returns which samples have the field; None if all do.")
      .def(
          "dtype",
          [](const Batch& self, std::string_view name) {
            return std::string(dtype_name(find_column(self, name).dtype));
          },
          "name"_a)
      .def(
          "lengths",
          [](OwnedBatch self, std::string_view name) {
            return int64_view(find_column(batch_of(self), name).lengths, self);
          },
          "name"_a, nb::sig("def lengths(self, name: str) -> NDArray[numpy.int64]"),
          "For a padded array: returns the number of rows per sample that are not padding.")
      .def(
          "place",
          [](const Batch& self, std::size_t i) {
            const Batch::Place at = self.place(i);
            return nb::make_tuple(make_str(at.path), at.offset_bytes);
          },
          "i"_a, nb::sig("def place(self, i: int) -> tuple[str, int]"),
          "Returns the path of a sample's shard and the sample's offset in it; \"\" for tokens.")
      .def("keys", &keys, nb::sig("def keys(self) -> list[str]"))
      .def_prop_ro(
          "positions", [](OwnedBatch self) { return int64_view(batch_of(self).positions(), self); },
          nb::sig("def positions(self) -> NDArray[numpy.int64]"))
      .def_prop_ro(
          "samples", &samples,
          nb::sig("def samples(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]"),
          "The dataset of each sample, and its number in the dataset.")
      .def_prop_ro("valid", &valid, nb::sig("def valid(self) -> NDArray[numpy.bool_]"))
      .def_prop_ro("cursor", [](const Batch& self) { return self.cursor(); })
      .def_prop_ro("epoch", &Batch::epoch)
      .def_prop_ro("position", &Batch::position, "Where the global batch of this batch begins.")
      .def_prop_ro("micro_batch", &Batch::micro_batch, "Which one of its step it is, from 0.")
      .def_prop_ro("last", &Batch::last, "Whether it is the last micro-batch of its step.")
      .def_prop_ro("number", &Batch::number)
      .def_prop_ro("leased_bytes", &Batch::leased_bytes)
      .def("release_arrays", &Batch::release_arrays,
           "Releases the memory of the arrays and removes their columns. No array may be in use.");
}

}  // namespace stoker::python
