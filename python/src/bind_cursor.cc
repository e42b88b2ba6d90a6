#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bind.h"
#include "raise.h"
#include "stoker/cursor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

nb::bytes encode(const Cursor& cursor) {
  const std::vector<std::byte> bytes = encode_cursor(cursor);
  return nb::bytes(bytes.data(), bytes.size());
}

Cursor decode(const nb::bytes& bytes) {
  return value_or_raise(decode_cursor(std::as_bytes(std::span(bytes.c_str(), bytes.size()))));
}

nb::list differences(const Cursor& cursor, const Cursor& run) {
  nb::list out;
  for (const CursorDifference& found : compare_cursor(cursor, run))
    out.append(nb::make_tuple(std::string(found.field), found.was, found.is, found.may_be_allowed));
  return out;
}

std::string check(const Cursor& cursor, const Cursor& run, const std::vector<std::string>& allow) {
  const std::vector<std::string_view> allowed(allow.begin(), allow.end());
  return std::string(check_cursor(cursor, run, allowed).message());
}

Cursor moved(const Cursor& cursor, std::uint64_t epoch, std::uint64_t position) {
  Cursor out = cursor;
  out.epoch = epoch;
  out.position = position;
  return out;
}

}  // namespace

void bind_cursor(nb::module_& module) {
  nb::class_<Cursor>(module, "Cursor",
                     "The position of a run in its data, and the identity of the data; the same on "
                     "every rank. Batches create it; store it as `bytes()` or `str()`.")
      .def_static("decode", &decode, "encoded"_a, "Decodes the result of bytes().")
      .def_static(
          "parse", [](const std::string& json) { return value_or_raise(parse_cursor(json)); },
          "json"_a, "Parses the result of str().")
      .def("__bytes__", &encode)
      .def("__str__", &format_cursor)
      .def("__repr__",
           [](const Cursor& self) {
             return "<stoker.Cursor: epoch " + std::to_string(self.epoch) + ", position " +
                    std::to_string(self.position) + " of " +
                    std::to_string(self.order.sample_count) + ">";
           })
      .def(
          "__eq__",
          [](const Cursor& self, nb::handle other) {
            return nb::isinstance<Cursor>(other) && self == nb::cast<const Cursor&>(other);
          },
          "other"_a.none(), nb::sig("def __eq__(self, other: object) -> bool"))
      .def(
          "__hash__", [](const Cursor& self) { return encode(self).attr("__hash__")(); },
          nb::sig("def __hash__(self) -> int"))
      .def("__getstate__", &encode)
      .def("__setstate__",
           [](Cursor& self, const nb::bytes& state) { new (&self) Cursor(decode(state)); })
      .def("at", &moved, "epoch"_a, "position"_a,
           "Returns a cursor of the same run at another position.")
      .def(
          "differences", &differences, "run"_a,
          nb::sig("def differences(self, run: Cursor) -> list[tuple[str, str, str, bool]]"),
          "Returns every field that differs from a cursor of `run`: name, was, is, may be allowed.")
      .def("check", &check, "run"_a, "allow"_a,
           "Returns why `run` cannot continue from here; empty if it can.")
      .def_ro("order", &Cursor::order)
      .def_prop_ro("shuffle",
                   [](const Cursor& self) { return std::string(shuffle_name(self.order.shuffle)); })
      .def_prop_ro("seed", [](const Cursor& self) { return self.order.seed; })
      .def_prop_ro("fingerprint", [](const Cursor& self) { return self.fingerprint.hex(); })
      .def_prop_ro("tail", [](const Cursor& self) { return std::string(tail_name(self.tail)); })
      .def_ro("global_batch_size", &Cursor::global_batch_size)
      .def_ro("epoch", &Cursor::epoch, "Counted from 0.")
      .def_ro("position", &Cursor::position, "Samples of this epoch that have been received.");
}

}  // namespace stoker::python
