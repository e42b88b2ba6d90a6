#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "array_object.h"
#include "bind.h"
#include "dataset/batch.h"
#include "dataset/sample_source.h"
#include "raise.h"
#include "sample_object.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using OwnedBatch = nb::handle_t<Batch>;
using OutBytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using Bytes = std::span<const std::byte>;

const Batch& batch_of(OwnedBatch self) {
  return nb::cast<const Batch&>(self);
}

/// A column of bytes: the fields of samples where they were read, made Python objects one by one
/// when they are looked at.
struct BytesColumn {
  nb::object batch;  // keeps `views` alive
  std::span<const Bytes> views;
};

nb::object item(const BytesColumn& self, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(self.views.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) throw nb::index_error();
  const Bytes view = self.views[static_cast<std::size_t>(index)];
  return view.data() == nullptr ? nb::none() : make_bytes(view, self.batch);
}

nb::list to_bytes(const BytesColumn& self) {
  nb::list out;
  for (const Bytes& view : self.views) {
    if (view.data() == nullptr)
      out.append(nb::none());
    else
      out.append(nb::bytes(view.data(), view.size()));
  }
  return out;
}

nb::object sizes(const BytesColumn& self) {
  std::vector<std::uint64_t> sizes;
  sizes.reserve(self.views.size());
  for (const Bytes& view : self.views) sizes.push_back(view.size());
  return make_int64_array(sizes);
}

std::size_t total_bytes(const BytesColumn& self) {
  std::size_t total = 0;
  for (const Bytes& view : self.views) total += view.size();
  return total;
}

void copy_to(const BytesColumn& self, const OutBytes& out) {
  if (total_bytes(self) != out.size())
    throw nb::value_error("copy_to() wants room for exactly all bytes");
  without_gil([&] {
    std::uint8_t* to = out.data();
    for (const Bytes& view : self.views) {
      if (!view.empty()) std::memcpy(to, view.data(), view.size());
      to += view.size();
    }
  });
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

/// Whoever has the batch may change its arrays: they are nobody else's.
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
    return nb::cast(BytesColumn{.batch = nb::borrow(self), .views = found.views});
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
  // Formats without keys may have a field of that name, which is one.
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

void bind_bytes_column(nb::module_& module) {
  nb::class_<BytesColumn>(module, "BytesColumn",
                          "A field of each sample of a batch, as bytes: a sequence of read-only "
                          "uint8 arrays that look into the batch, each made when it is looked at. "
                          "None for a sample without the field.")
      .def("__len__", [](const BytesColumn& self) { return self.views.size(); })
      .def("__getitem__", &item, "index"_a,
           nb::sig("def __getitem__(self, index: int) -> NDArray[numpy.uint8]"))
      .def("tolist", &to_bytes, nb::sig("def tolist(self) -> list[bytes]"), "Copies.")
      .def_prop_ro("sizes", &sizes, nb::sig("def sizes(self) -> NDArray[numpy.int64]"),
                   "The bytes of each.")
      .def_prop_ro("nbytes", &total_bytes, "The bytes of all.")
      .def("copy_to", &copy_to, "out"_a,
           nb::sig("def copy_to(self, out: NDArray[numpy.uint8]) -> None"),
           "All of them, one after the other, into an array of just their size.")
      .def(
          "__reduce__",
          [](const BytesColumn& self) {
            return nb::make_tuple(nb::borrow(reinterpret_cast<PyObject*>(&PyList_Type)),
                                  nb::make_tuple(to_bytes(self)));
          },
          nb::sig("def __reduce__(self) -> tuple[Any, ...]"))
      .def("__repr__", [](const BytesColumn& self) {
        return "BytesColumn(" + std::to_string(self.views.size()) + " samples)";
      });
}

}  // namespace

void bind_batch(nb::module_& module) {
  bind_bytes_column(module);
  nb::class_<Batch>(module, "Batch",
                    "A batch in the loader's memory, which it and its columns keep. stoker.Batch "
                    "is the dict made of it.")
      .def("__len__", &Batch::size)
      .def_prop_ro("names", &names, nb::sig("def names(self) -> tuple[str, ...]"))
      .def("column", &column, "name"_a, nb::sig("def column(self, name: str) -> Any"),
           "An array; a BytesColumn; a list of str; of ragged ones values and offsets.")
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
          "Of a padded array: how many rows of each sample are its own.")
      .def(
          "place",
          [](const Batch& self, std::size_t i) {
            const Batch::Place at = self.place(i);
            return nb::make_tuple(make_str(at.path), at.offset_bytes);
          },
          "i"_a, nb::sig("def place(self, i: int) -> tuple[str, int]"),
          "The path of a sample's shard, and the byte at which it begins; of tokens, \"\".")
      .def("keys", &keys, nb::sig("def keys(self) -> list[str]"))
      .def_prop_ro(
          "positions", [](OwnedBatch self) { return int64_view(batch_of(self).positions(), self); },
          nb::sig("def positions(self) -> NDArray[numpy.int64]"))
      .def_prop_ro(
          "samples", &samples,
          nb::sig("def samples(self) -> tuple[NDArray[numpy.int64], NDArray[numpy.int64]]"),
          "Which dataset, and which sample of it.")
      .def_prop_ro("valid", &valid, nb::sig("def valid(self) -> NDArray[numpy.bool_]"))
      .def_prop_ro("cursor", [](const Batch& self) { return self.cursor(); })
      .def_prop_ro("epoch", &Batch::epoch)
      .def_prop_ro("number", &Batch::number)
      .def_prop_ro("leased_bytes", &Batch::leased_bytes)
      .def(
          "release_arrays", &Batch::release_arrays,
          "Gives the memory of arrays back, of which nobody may have one: their columns are gone.");
}

}  // namespace stoker::python
