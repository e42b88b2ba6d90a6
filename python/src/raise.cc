#include "raise.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string>

namespace nb = nanobind;

namespace stoker::python {
namespace {

constexpr const char* kCorruptErrorDoc =
    "Bytes were read, and they are not the bytes that were written.\n\n"
    "`path` is the shard or the checkpoint's file, `offset` where the sample or the damage lies "
    "in\n"
    "it, `key` the sample's key, or \"<shard>/<number>\" if the key itself cannot be read. None\n"
    "where that is not known.";

PyObject* corrupt_error = nullptr;  // owned by the module, which is never unloaded

/// An errno that says what `code` says, for failures that no system call reported.
int errno_for(Code code) {
  switch (code) {
    case Code::not_found: return ENOENT;
    case Code::already_exists: return EEXIST;
    case Code::no_space: return ENOSPC;
    case Code::unavailable: return EAGAIN;
    case Code::cancelled: return ECANCELED;
    case Code::unsupported: return EOPNOTSUPP;
    case Code::denied: return EACCES;
    default: return EIO;
  }
}

/// Paths and keys are bytes: what is not UTF-8 comes as Python's own file names do.
nb::str printable(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

}  // namespace

void bind_errors(nb::module_& module) {
  nb::dict defaults;
  for (const char* name : {"path", "offset", "key"}) defaults[name] = nb::none();
  corrupt_error = PyErr_NewExceptionWithDoc("stoker.CorruptError", kCorruptErrorDoc,
                                            PyExc_ValueError, defaults.ptr());
  if (corrupt_error == nullptr) throw nb::python_error();
  module.attr("CorruptError") = nb::borrow(corrupt_error);
}

std::optional<CorruptPlace> place_under(std::string_view directory, std::string_view message) {
  const std::size_t begin = message.find(std::string(directory) + "/");
  if (begin == std::string_view::npos) return std::nullopt;
  constexpr std::string_view kOffset = ", offset ";
  const std::string_view named = message.substr(begin);
  const std::size_t end =
      std::min(named.find(kOffset, directory.size()), named.find(": ", directory.size()));
  CorruptPlace place{.path = std::string(named.substr(0, end)), .key = {}};
  if (end == std::string_view::npos || !named.substr(end).starts_with(kOffset)) return place;
  const std::string_view number = named.substr(end + kOffset.size());
  // Without a number it stays at the beginning.
  static_cast<void>(
      std::from_chars(number.data(), number.data() + number.size(), place.offset_bytes));
  return place;
}

void raise_if_failed(const Status& status, const CorruptPlace* place) {
  if (status.ok()) return;
  const nb::str message = printable(std::string(status.message()));
  if (status.code() == Code::corrupt) {
    nb::object error = nb::borrow(corrupt_error)(message);
    if (place != nullptr) {
      error.attr("path") = printable(place->path);
      error.attr("offset") = place->offset_bytes;
      if (!place->key.empty()) error.attr("key") = printable(place->key);
    }
    PyErr_SetObject(corrupt_error, error.ptr());
  } else if (status.code() == Code::invalid_argument && status.os_error() == 0) {
    PyErr_SetObject(PyExc_ValueError, message.ptr());
  } else {
    const int os_error = status.os_error() != 0 ? status.os_error() : errno_for(status.code());
    PyErr_SetObject(PyExc_OSError, nb::make_tuple(os_error, message).ptr());
  }
  throw nb::python_error();
}

}  // namespace stoker::python
