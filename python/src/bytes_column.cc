#include "bytes_column.h"

#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "array_object.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using Bytes = std::span<const std::byte>;
using OutBytes = nb::ndarray<std::uint8_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::object value_of(const BytesColumn& self, Bytes view) {
  if (view.data() == nullptr) return nb::none();
  const Bytes memory = self.memory;
  const bool is_inside =
      view.data() >= memory.data() && view.data() + view.size() <= memory.data() + memory.size();
  if (!is_inside) return make_bytes(view, self.batch);
  if (!self.array.is_valid()) self.array = make_bytes(memory, self.batch);
  const Py_ssize_t begin = view.data() - memory.data();
  PyObject* slice =
      PySequence_GetSlice(self.array.ptr(), begin, begin + static_cast<Py_ssize_t>(view.size()));
  if (slice == nullptr) throw nb::python_error();
  return nb::steal(slice);
}

nb::object item(const BytesColumn& self, std::int64_t index) {
  const auto size = static_cast<std::int64_t>(self.views.size());
  if (index < 0) index += size;
  if (index < 0 || index >= size) throw nb::index_error();
  return value_of(self, self.views[static_cast<std::size_t>(index)]);
}

nb::list items(const BytesColumn& self, const nb::slice& slice) {
  auto [at, stop, step, count] = slice.compute(self.views.size());
  nb::list values;
  for (; count > 0; --count, at += step)
    values.append(value_of(self, self.views[static_cast<std::size_t>(at)]));
  return values;
}

/// Iterates over a list, which needs no further native calls.
nb::object iterate(const BytesColumn& self) {
  nb::list values;
  for (const Bytes& view : self.views) values.append(value_of(self, view));
  return nb::iter(values);
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
    throw nb::value_error("copy_to() needs room for exactly all bytes");
  without_gil([&] {
    std::uint8_t* to = out.data();
    for (const Bytes& view : self.views) {
      if (!view.empty()) std::memcpy(to, view.data(), view.size());
      to += view.size();
    }
  });
}

BytesColumn first(const BytesColumn& self, std::size_t count) {
  return {.batch = self.batch,
          .views = self.views.first(std::min(count, self.views.size())),
          .memory = self.memory};
}

}  // namespace

void bind_bytes_column(nb::module_& module) {
  nb::class_<BytesColumn>(
      module, "BytesColumn",
      "A field of each sample of a batch, as bytes: a sequence of read-only uint8 arrays, views of "
      "the batch that are created on access. None for a sample without the field.")
      .def("__len__", [](const BytesColumn& self) { return self.views.size(); })
      .def("__getitem__", &item, "index"_a,
           nb::sig("def __getitem__(self, index: int) -> NDArray[numpy.uint8]"))
      .def("__getitem__", &items, "index"_a,
           nb::sig("def __getitem__(self, index: slice) -> list[NDArray[numpy.uint8]]"))
      .def("__iter__", &iterate, nb::sig("def __iter__(self) -> Iterator[NDArray[numpy.uint8]]"))
      .def("first", &first, "count"_a, "Returns a column of the first `count` samples.")
      .def("tolist", &to_bytes, nb::sig("def tolist(self) -> list[bytes]"), "Returns copies.")
      .def_prop_ro("sizes", &sizes, nb::sig("def sizes(self) -> NDArray[numpy.int64]"),
                   "Size of each value in bytes.")
      .def_prop_ro("nbytes", &total_bytes, "Total size in bytes.")
      .def("copy_to", &copy_to, "out"_a,
           nb::sig("def copy_to(self, out: NDArray[numpy.uint8]) -> None"),
           "Copies all values, concatenated, into an array of exactly their size.")
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

}  // namespace stoker::python
