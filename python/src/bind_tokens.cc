#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "array_object.h"
#include "base/for_each_position.h"
#include "bind.h"
#include "dataset/tokens/token_bins.h"
#include "dataset/tokens/token_read.h"
#include "dataset/tokens/token_windows.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using Units = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutIds = nb::ndarray<std::int32_t, nb::c_contig, nb::device::cpu>;
using OutRows = nb::ndarray<nb::c_contig, nb::device::cpu>;

void read_windows(const TokenWindows& windows, const ShardDataset& dataset, const Units& units,
                  const OutRows& out) {
  const std::size_t row_bytes = windows.row_bytes();
  if (out.nbytes() != units.size() * row_bytes) throw nb::value_error("out has another size");
  auto* rows = static_cast<std::byte*>(out.data());
  const FirstFailure failure = without_gil([&] {
    return for_each_position(units.size(), [&](std::size_t row) -> Status {
      return internal::read_window(dataset, windows, static_cast<std::uint64_t>(units.data()[row]),
                                   {rows + row * row_bytes, row_bytes});
    });
  });
  raise_if_failed(failure.status);
}

/// Reads packs into rows and returns their lengths.
nb::object read_packs(const TokenBins& packs, const ShardDataset& dataset, const Units& units,
                      const OutRows& out, const OutIds& position_ids, const OutIds& document_ids) {
  const std::size_t length = packs.length();
  const std::size_t count = units.size();
  if (out.nbytes() != count * packs.row_bytes() || position_ids.size() != count * length ||
      document_ids.size() != count * length)
    throw nb::value_error("out has another size");
  auto* rows = static_cast<std::byte*>(out.data());
  std::vector<std::uint64_t> lengths(count);
  const FirstFailure failure = without_gil([&] {
    return for_each_position(count, [&](std::size_t row) -> Status {
      const internal::BinRow place{.tokens = {rows + row * packs.row_bytes(), packs.row_bytes()},
                                   .position_ids = {position_ids.data() + row * length, length},
                                   .document_ids = {document_ids.data() + row * length, length}};
      STOKER_ASSIGN(lengths[row],
                    internal::read_pack(dataset, packs,
                                        static_cast<std::uint64_t>(units.data()[row]), place));
      return {};
    });
  });
  raise_if_failed(failure.status);
  return make_int64_array(lengths);
}

void bind_packs(nb::module_& module) {
  nb::class_<TokenBins>(module, "TokenBins", "Use stoker.Tokens(pack=).")
      .def_static(
          "open",
          [](const std::shared_ptr<ShardDataset>& dataset, std::uint64_t length,
             const std::string& cache_directory) {
            auto opened = interruptible([&](std::stop_token stop) {
              return TokenBins::open(dataset, {.length = length,
                                               .cache_directory = cache_directory,
                                               .in_memory = true,
                                               .stop = std::move(stop)});
            });
            return std::make_shared<TokenBins>(value_or_raise(std::move(opened)));
          },
          "dataset"_a, "length"_a, "cache_directory"_a = "",
          "Opens the packs; builds them if none match.")
      .def("__len__", &TokenBins::count)
      .def_prop_ro("dtype",
                   [](const TokenBins& self) { return std::string(dtype_name(self.dtype())); })
      .def_prop_ro("length", &TokenBins::length)
      .def(
          "read", &read_packs, "dataset"_a, "units"_a, "out"_a, "position_ids"_a, "document_ids"_a,
          nb::sig("def read(self, dataset: Dataset, units: NDArray[numpy.int64], "
                  "out: NDArray[Any], position_ids: NDArray[numpy.int32], "
                  "document_ids: NDArray[numpy.int32]) -> NDArray[numpy.int64]"),
          "Reads packs into rows, in the dtype of the file, padded with 0. Returns their lengths.");
}

}  // namespace

void bind_tokens(nb::module_& module) {
  bind_packs(module);
  nb::class_<TokenWindows>(module, "TokenWindows", "Use stoker.Tokens.")
      .def_static(
          "make",
          [](const ShardDataset& dataset, std::uint64_t window, std::uint64_t stride,
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
           "Reads windows into the rows of `out`, in the dtype of the file.");
}

}  // namespace stoker::python
