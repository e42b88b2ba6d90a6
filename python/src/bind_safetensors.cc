#include <fcntl.h>
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <vector>

#include "bind.h"
#include "checkpoint_arguments.h"
#include "io/files/exact_transfer.h"
#include "io/files/file_ops.h"
#include "raise.h"
#include "stoker/safetensors.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

Result<SafetensorsHeader> read_header(const std::string& path) {
  STOKER_ASSIGN(const UniqueFd fd, posix_file_ops().open(path, O_RDONLY));
  struct stat info{};
  if (::fstat(fd.get(), &info) != 0) return Status::from_errno(errno, "stat", "");
  const auto size_bytes = static_cast<std::uint64_t>(info.st_size);
  std::vector<std::byte> bytes(8);
  STOKER_TRY(read_exactly(fd.get(), 0, bytes, "header"));
  STOKER_ASSIGN(const std::uint64_t header_bytes, safetensors_header_bytes(bytes, size_bytes));
  bytes.resize(static_cast<std::size_t>(header_bytes));
  STOKER_TRY(read_exactly(fd.get(), 0, bytes, "header"));
  return parse_safetensors(bytes, size_bytes);
}

nb::list tensors_of(const nb::bytes& path) {
  const std::string name = path_of(path);
  const Result<SafetensorsHeader> header = without_gil([&] { return read_header(name); });
  const CorruptPlace place{.path = name, .key = {}};
  raise_if_failed(header.status().with_context(name), &place);
  nb::list out;
  for (const SafetensorsEntry& entry : header->entries)
    out.append(nb::make_tuple(text_of(entry.name), text_of(tensor_type_name(entry.type)),
                              nb::tuple(nb::cast(entry.shape)),
                              header->data_offset_bytes + entry.begin_bytes));
  return out;
}

}  // namespace

void bind_safetensors(nb::module_& module) {
  module.def("list_safetensors", &tensors_of, "path"_a,
             nb::sig("def list_safetensors(path: bytes) -> "
                     "list[tuple[str, str, tuple[int, ...], int]]"),
             "Returns name, type, shape and offset of each tensor in a safetensors file.");
}

}  // namespace stoker::python
