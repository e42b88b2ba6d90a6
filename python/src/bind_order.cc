#include <nanobind/nanobind.h>
#include <nanobind/operators.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "array_object.h"
#include "bind.h"
#include "dataset/order/batch_cut.h"
#include "dataset/order/mixture.h"
#include "dataset/order/order.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using SharedOrder = std::shared_ptr<SampleOrder>;

Digest128 digest_of(const std::string& hex) {
  return value_or_raise(Digest128::from_hex(hex));
}

MixtureOptions mixture_of(const OrderOptions& order, const std::vector<std::uint64_t>& counts,
                          const std::vector<double>& weights) {
  if (counts.size() != weights.size()) throw nb::value_error("as many weights as counts");
  MixtureOptions options{.order = order, .parts = {}};
  for (std::size_t i = 0; i < counts.size(); ++i) options.parts.push_back({counts[i], weights[i]});
  return options;
}

nb::tuple fill(const SampleOrder& order, std::uint64_t epoch, std::uint64_t position,
               std::size_t count) {
  std::vector<SampleRef> refs(count);
  without_gil([&] { order.fill(epoch, position, refs); });
  std::vector<std::uint64_t> datasets;
  std::vector<std::uint64_t> samples;
  for (const SampleRef& ref : refs) {
    datasets.push_back(ref.dataset);
    samples.push_back(ref.sample);
  }
  return nb::make_tuple(make_int64_array(datasets), make_int64_array(samples));
}

void bind_order_options(nb::module_& module) {
  nb::class_<OrderOptions>(module, "OrderOptions", "The options of an order.")
      .def(
          "__init__",
          [](OrderOptions* self, const std::string& shuffle, std::uint64_t seed,
             std::uint64_t sample_count) {
            new (self) OrderOptions{.shuffle = value_or_raise(parse_shuffle(shuffle)),
                                    .seed = seed,
                                    .sample_count = sample_count};
          },
          "shuffle"_a, "seed"_a, "sample_count"_a)
      .def_prop_ro("shuffle",
                   [](const OrderOptions& self) { return std::string(shuffle_name(self.shuffle)); })
      .def_ro("seed", &OrderOptions::seed)
      .def_ro("sample_count", &OrderOptions::sample_count)
      .def_rw("block_samples", &OrderOptions::block_samples)
      .def_rw("window_blocks", &OrderOptions::window_blocks)
      .def_rw("lanes", &OrderOptions::lanes)
      .def_rw("deal_samples", &OrderOptions::deal_samples);
}

void bind_orders(nb::module_& module) {
  nb::class_<SampleOrder>(module, "Order", "Maps positions to samples; a pure function.")
      .def_prop_ro("epoch_samples", &SampleOrder::epoch_samples)
      .def_prop_ro("dataset_count", &SampleOrder::dataset_count)
      .def("fill", &fill, "epoch"_a, "position"_a, "count"_a,
           nb::sig("def fill(self, epoch: int, position: int, count: int) -> "
                   "tuple[NDArray[numpy.int64], NDArray[numpy.int64]]"),
           "Returns dataset and sample of `count` positions from this one on.");
  module.def(
      "make_mixture_order",
      [](const OrderOptions& order, const std::vector<std::uint64_t>& counts,
         const std::vector<double>& weights) -> SharedOrder {
        return value_or_raise(make_mixture_order(mixture_of(order, counts, weights)));
      },
      "order"_a, "counts"_a, "weights"_a);
  module.def(
      "mixture_fingerprint",
      [](const std::vector<std::string>& fingerprints, const std::vector<std::uint64_t>& counts,
         const std::vector<double>& weights) {
        std::vector<Digest128> digests;
        for (const std::string& hex : fingerprints) digests.push_back(digest_of(hex));
        const MixtureOptions options = mixture_of({}, counts, weights);
        return value_or_raise(mixture_fingerprint(digests, options.parts)).hex();
      },
      "fingerprints"_a, "counts"_a, "weights"_a);
}

void bind_batch_cut(nb::module_& module) {
  nb::class_<BatchCut>(module, "BatchCut",
                       "Divides the positions of an epoch into batches and ranks.")
      .def("batches_from", &BatchCut::batches_from, "position"_a)
      .def("micro_batches_at", &BatchCut::micro_batches_at, "position"_a)
      .def("micro_batches_from", &BatchCut::micro_batches_from, "position"_a)
      .def_prop_ro("global_batch_size",
                   [](const BatchCut& self) { return self.options().global_batch_size; })
      .def_prop_ro("rank", [](const BatchCut& self) { return self.options().rank; })
      .def_prop_ro("world_size", [](const BatchCut& self) { return self.options().world_size; })
      .def_prop_ro("tail",
                   [](const BatchCut& self) { return std::string(tail_name(self.options().tail)); })
      .def_prop_ro("rank_batch_size", &BatchCut::rank_batch_size)
      .def_prop_ro("micro_batch_size", &BatchCut::micro_batch_size)
      .def_prop_ro("micro_batches_per_step", &BatchCut::micro_batches_per_step);
}

}  // namespace

void bind_order(nb::module_& module) {
  bind_order_options(module);
  bind_orders(module);
  bind_batch_cut(module);
}

}  // namespace stoker::python
