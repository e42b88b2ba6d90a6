#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <span>
#include <string>

#include "bind.h"
#include "dataset/token_windows.h"
#include "io/buffer_pool.h"
#include "parallel_samples.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using Units = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutRows = nb::ndarray<nb::c_contig, nb::device::cpu>;

/// Reads one window. Opens nothing but files, so it works in a forked child.
Status read_window(const Dataset& dataset, const TokenWindows& windows, std::uint64_t unit,
                   std::span<std::byte> out) {
  STOKER_ASSIGN(const TokenSpan at, windows.locate(unit));
  const std::uint64_t offset = at.range.offset_bytes;
  const std::string& path = dataset.source().shards()[at.shard].path;
  if (dataset.source().is_compressed(at.shard)) {
    STOKER_ASSIGN(const InflatedCache::Bytes plain, dataset.inflate_shard(at.shard));
    if (at.range.end_bytes() > plain->size())
      return Status(Code::corrupt, path + ": the window lies outside its shard");
    std::memcpy(out.data(), plain->data() + offset, out.size());
    return {};
  }
  STOKER_ASSIGN(const std::shared_ptr<const File> file, dataset.lend_shard(at.shard));
  STOKER_ASSIGN(const std::unique_ptr<Engine> engine, make_sync_engine({.depth = 1}));
  STOKER_ASSIGN(BufferPool pool, BufferPool::make({.budget_bytes = BufferPool::size_class_bytes(
                                                       file->scratch_bytes(offset, out.size())),
                                                   .touch = false}));
  STOKER_ASSIGN(const Lease lease, pool.try_lease(file->scratch_bytes(offset, out.size())));
  STOKER_ASSIGN(const std::span<std::byte> bytes,
                file->read(*engine, offset, out.size(), lease.bytes()));
  if (bytes.size() != out.size()) return Status(Code::corrupt, path + ": ends inside the window");
  std::memcpy(out.data(), bytes.data(), out.size());
  return {};
}

void read_windows(const TokenWindows& windows, const Dataset& dataset, const Units& units,
                  const OutRows& out) {
  const std::size_t row_bytes = windows.row_bytes();
  if (out.nbytes() != units.size() * row_bytes) throw nb::value_error("out has another size");
  auto* rows = static_cast<std::byte*>(out.data());
  const FirstFailure failure = without_gil([&] {
    return for_each_position(units.size(), [&](std::size_t row) {
      return read_window(dataset, windows, static_cast<std::uint64_t>(units.data()[row]),
                         {rows + row * row_bytes, row_bytes});
    });
  });
  raise_if_failed(failure.status);
}

}  // namespace

void bind_tokens(nb::module_& module) {
  nb::class_<TokenWindows>(module, "TokenWindows", "Use stoker.Tokens.")
      .def_static(
          "make",
          [](const Dataset& dataset, std::uint64_t window, std::uint64_t stride,
             std::uint64_t extra) {
            return std::make_shared<TokenWindows>(value_or_raise(
                TokenWindows::make(dataset, {.window = window, .stride = stride, .extra = extra})));
          },
          "dataset"_a, "window"_a, "stride"_a, "extra"_a)
      .def("__len__", &TokenWindows::count)
      .def_prop_ro("dtype",
                   [](const TokenWindows& self) { return std::string(dtype_name(self.dtype())); })
      .def_prop_ro("tokens_per_row", &TokenWindows::tokens_per_row)
      .def_prop_ro("token_count", &TokenWindows::token_count)
      .def("read", &read_windows, "dataset"_a, "units"_a, "out"_a,
           nb::sig("def read(self, dataset: Dataset, units: NDArray[numpy.int64], "
                   "out: NDArray[Any]) -> None"),
           "Windows into the rows of `out`, in the file's own dtype.");
}

}  // namespace stoker::python
