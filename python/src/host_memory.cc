#include "host_memory.h"

#include <cstdint>

namespace nb = nanobind;

namespace stoker::python {
namespace {

/// A name that Python looks up fast. Never freed.
class Name {
 public:
  explicit Name(const char* text) : text_(PyUnicode_InternFromString(text)) {}

  // Both return null after a failure.
  nb::object of(nb::handle object) const {
    return nb::steal(PyObject_GetAttr(object.ptr(), text_));
  }
  nb::object call(nb::handle object) const {
    return nb::steal(PyObject_CallMethodNoArgs(object.ptr(), text_));
  }
  std::uint64_t number(nb::handle object) const {
    const nb::object value = call(object);
    return value.is_valid() ? PyLong_AsUnsignedLongLong(value.ptr()) : 0;
  }

 private:
  PyObject* text_;
};

struct Names {
  Name is_cpu{"is_cpu"}, is_cuda{"is_cuda"}, get_device{"get_device"}, layout{"layout"},
      is_nested{"is_nested"};
  Name is_contiguous{"is_contiguous"}, is_conj{"is_conj"}, is_neg{"is_neg"};
  Name untyped_storage{"untyped_storage"}, nbytes{"nbytes"}, storage_offset{"storage_offset"};
  Name numel{"numel"}, element_size{"element_size"};
  Name dtype{"dtype"}, shape{"shape"}, data_ptr{"data_ptr"};
};

/// "cuda:0", as torch names it. Null after a failure.
nb::object device_name(std::uint64_t index) {
  return nb::steal(PyUnicode_FromFormat("cuda:%llu", static_cast<unsigned long long>(index)));
}

/// Returns null, possibly with a Python error, for a tensor that is not as described in the header.
nb::object find_memory(nb::handle tensor, nb::handle strided, const nb::dict& types,
                       bool has_cuda) {
  static const Names& names = *new Names();
  const bool is_cpu = names.is_cpu.of(tensor).is(Py_True);
  const bool is_simple =
      (is_cpu || (has_cuda && names.is_cuda.of(tensor).is(Py_True))) &&
      names.layout.of(tensor).is(strided) && names.is_nested.of(tensor).is(Py_False) &&
      names.is_contiguous.call(tensor).is(Py_True) && names.is_conj.call(tensor).is(Py_False) &&
      names.is_neg.call(tensor).is(Py_False);
  if (!is_simple) return {};
  const nb::object storage = names.untyped_storage.call(tensor);
  if (!storage.is_valid()) return {};
  const std::uint64_t count = names.numel.number(tensor);
  const std::uint64_t end = names.storage_offset.number(tensor) + count;
  const std::uint64_t end_bytes = end * names.element_size.number(tensor);
  // It may have been resized, as FSDP does.
  if (names.nbytes.number(storage) < end_bytes && count > 0) return {};
  const nb::object dtype = names.dtype.of(tensor);
  if (!dtype.is_valid()) return {};
  const nb::handle type = PyDict_GetItemWithError(types.ptr(), dtype.ptr());  // none if quantized
  if (!type.is_valid()) return {};
  const nb::object size = names.shape.of(tensor);  // a torch.Size, which is derived from tuple
  const nb::object address = names.data_ptr.call(tensor);
  if (PyErr_Occurred() != nullptr) return {};
  const nb::object shape = nb::steal(PyTuple_GetSlice(size.ptr(), 0, PyTuple_Size(size.ptr())));
  if (!shape.is_valid()) return {};
  const nb::object none = nb::none();
  const nb::object device = is_cpu ? none : device_name(names.get_device.number(tensor));
  if (!device.is_valid()) return {};
  return nb::make_tuple(type, shape, none, address, none, storage, device);
}

}  // namespace

nb::object host_memory(nb::handle tensor, nb::handle strided, const nb::dict& types,
                       bool has_cuda) {
  nb::object found = find_memory(tensor, strided, types, has_cuda);
  if (found.is_valid()) return found;
  PyErr_Clear();
  return nb::none();
}

}  // namespace stoker::python
