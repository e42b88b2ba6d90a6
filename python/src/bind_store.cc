// The store of a file system of fsspec: see stoker/_dataset/filesystems.py.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/checksum.h"
#include "bind.h"
#include "gil.h"
#include "served_store.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

/// An errand with its store, for the thread that does it.
struct Taken {
  std::shared_ptr<ServedStore> store;
  std::shared_ptr<Errand> errand;
};

Taken take(const std::shared_ptr<ServedStore>& store) {
  return {.store = store, .errand = without_gil([&] { return store->take(); })};
}

std::string kind_of(const Taken& self) {
  switch (self.errand->kind) {
    case Errand::Kind::look: return "look";
    case Errand::Kind::list: return "list";
    case Errand::Kind::read: return "read";
  }
  return {};
}

std::uint64_t size_of(const Taken& self) {
  std::uint64_t size = 0;
  for (const std::span<std::byte> piece : self.errand->into) size += piece.size();
  return size;
}

void finish(const Taken& self, const std::function<void(Errand&)>& fill) {
  const ReleasedGil unlocked;
  self.store->finish(*self.errand, fill);
}

void found(const Taken& self, bool is_folder, std::uint64_t size_bytes,
           const std::string& version) {
  finish(self, [&](Errand& errand) {
    errand.entry = {.kind = ObjectStore::Kind::folder};
    if (is_folder) return;
    const auto bytes = std::as_bytes(std::span(version));
    errand.entry = {.kind = ObjectStore::Kind::object, .info = {.size_bytes = size_bytes}};
    if (!version.empty())
      errand.entry.info.version = static_cast<std::int64_t>(xxh3_128(bytes).low);
  });
}

void listed(const Taken& self, const std::vector<std::pair<std::string, bool>>& names) {
  finish(self, [&](Errand& errand) {
    for (const auto& [name, is_folder] : names)
      errand.names.emplace_back(name,
                                is_folder ? ObjectStore::Kind::folder : ObjectStore::Kind::object);
  });
}

void came(const Taken& self, const nb::bytes& data) {
  const auto* const bytes = static_cast<const std::byte*>(data.data());
  const std::size_t size = data.size();
  const bool is_whole = size == size_of(self);
  finish(self, [&](Errand& errand) {
    if (!is_whole) {
      errand.status = {
          Code::unavailable,
          "the file system returned " + std::to_string(size) + " bytes: was the file replaced?",
          ESTALE};
      return;
    }
    std::size_t at = 0;
    for (const std::span<std::byte> piece : errand.into) {
      std::memcpy(piece.data(), bytes + at, piece.size());
      at += piece.size();
    }
    errand.bytes = static_cast<std::int64_t>(size);
  });
}

void failed(const Taken& self, int error, const std::string& message) {
  finish(self, [&](Errand& errand) {
    const Status told = Status::from_errno(error == 0 ? EIO : error, "", "");
    errand.status = Status(told.code(), message, told.os_error());
  });
}

}  // namespace

void bind_store(nb::module_& module) {
  nb::class_<ObjectStore>(module, "ObjectStore", "Where the files of a dataset are.");
  nb::class_<Taken>(module, "Errand", "What a file system of Python is to do.")
      .def_prop_ro("kind", &kind_of, R"("look", "list" or "read".)")
      .def_prop_ro("key", [](const Taken& self) { return self.errand->key; })
      .def_prop_ro("offset", [](const Taken& self) { return self.errand->offset_bytes; })
      .def_prop_ro("size", &size_of, "Bytes to read.")
      .def("found", &found, "is_folder"_a, "size_bytes"_a, "version"_a)
      .def("listed", &listed, "names"_a,
           nb::sig("def listed(self, names: Sequence[tuple[str, bool]]) -> None"))
      .def("came", &came, "data"_a)
      .def("failed", &failed, "error"_a, "message"_a);
  nb::class_<ServedStore, ObjectStore>(module, "ServedStore", "Read by threads of Python.")
      .def(nb::init<std::string>(), "scheme"_a)
      .def("begin_anew", &ServedStore::begin_anew, "To be called in a forked child.");
  module.def("take_errand", &take, "store"_a, "Waits for an errand.");
}

}  // namespace stoker::python
