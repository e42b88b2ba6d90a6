#include "raise.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <filesystem>
#include <string>

namespace nb = nanobind;

namespace stoker::python {
namespace {

constexpr const char* kCorruptErrorDoc =
    "The bytes that were read are not the bytes that were written.\n\n"
    "`path` is the shard or the checkpoint's file, `offset` the offset of the sample or the damage "
    "in\n"
    "it, `key` the sample's key, or \"<shard>/<number>\" if the key itself cannot be read, "
    "`tensor`\n"
    "the checkpoint's tensor. Each is None if it is not known.";

PyObject* corrupt_error = nullptr;  // owned by the module, which is never unloaded

/// Returns the errno that corresponds to `code`, for failures that no system call reported.
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

/// Paths and keys are bytes: those that are not UTF-8 are surrogate-escaped, like Python's file
/// names.
nb::str printable(const std::string& text) {
  return nb::steal<nb::str>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
}

/// Removes `text`, or a number, from the front of `rest`.
bool skip(std::string_view& rest, std::string_view text) {
  if (!rest.starts_with(text)) return false;
  rest.remove_prefix(text.size());
  return true;
}
std::optional<std::uint64_t> skip_number(std::string_view& rest) {
  std::uint64_t number = 0;
  const auto [end, failure] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
  if (failure != std::errc()) return std::nullopt;
  rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
  return number;
}

/// Returns the length of the longest prefix before a ": " that names an existing file; 0 if there
/// is none. File names may contain colons.
std::size_t path_bytes_of(std::string_view message) {
  std::size_t found = 0;
  for (std::size_t at = message.find(": "); at != std::string_view::npos;
       at = message.find(": ", at + 1)) {
    std::error_code failed;  // for example a prefix that is too long for a name: not a file
    if (std::filesystem::exists(message.substr(0, at), failed) && !failed) found = at;
  }
  return found;
}

}  // namespace

std::optional<CorruptPlace> place_in(std::string_view message) {
  const std::size_t path_bytes = path_bytes_of(message);
  if (path_bytes == 0) return std::nullopt;
  CorruptPlace place{
      .path = std::string(message.substr(0, path_bytes)), .offset_bytes = {}, .key = {}};
  std::string_view rest = message.substr(path_bytes + 2);
  // MDS messages repeat the shard's name from index.json.
  static_cast<void>(skip(rest, std::filesystem::path(place.path).filename().string() + ": "));
  if (skip(rest, "sample ")) {
    static_cast<void>(skip_number(rest));
    static_cast<void>(skip(rest, " at "));
  } else {
    static_cast<void>(skip(rest, "record at ") || skip(rest, ".idx ") || skip(rest, "compressed "));
  }
  if (skip(rest, "offset ") || skip(rest, "byte ") || skip(rest, "bytes "))
    place.offset_bytes = skip_number(rest);
  if (skip(rest, ": key \"")) {
    const std::size_t end = std::min(rest.find('"'), rest.size());
    const std::string_view key = rest.substr(0, end);
    // A key that was truncated or escaped for the message is not used.
    if (rest.substr(end).starts_with("\": ") && key.find('\\') == std::string_view::npos)
      place.key = std::string(key);
  }
  return place;
}

void bind_errors(nb::module_& module) {
  nb::dict defaults;
  for (const char* name : {"path", "offset", "key", "tensor"}) defaults[name] = nb::none();
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
  // Without a number the offset is 0.
  std::uint64_t offset_bytes = 0;
  static_cast<void>(std::from_chars(number.data(), number.data() + number.size(), offset_bytes));
  place.offset_bytes = offset_bytes;
  return place;
}

void raise_if_failed(const Status& status, const CorruptPlace* place) {
  if (status.ok()) return;
  const nb::str message = printable(std::string(status.message()));
  if (status.code() == Code::corrupt) {
    nb::object error = nb::borrow(corrupt_error)(message);
    if (place != nullptr) {
      error.attr("path") = printable(place->path);
      if (place->offset_bytes) error.attr("offset") = *place->offset_bytes;
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
