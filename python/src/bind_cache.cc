#include <nanobind/nanobind.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>

#include <cstdint>
#include <memory>
#include <string>

#include "bind.h"
#include "dataset/shard_cache/shard_cache.h"
#include "gil.h"
#include "raise.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

nb::dict stats_of(const ShardCache& cache) {
  const CacheStats stats = cache.stats();
  nb::dict out;
  out["hits"] = stats.hits;
  out["hit_bytes"] = stats.hit_bytes;
  out["fetches"] = stats.fetches;
  out["fetched_bytes"] = stats.fetched_bytes;
  out["passes"] = stats.passes;
  out["passed_bytes"] = stats.passed_bytes;
  out["healed"] = stats.healed;
  out["waits"] = stats.waits;
  out["evicted"] = stats.evicted;
  out["failures"] = stats.failures;
  out["used_bytes"] = stats.used_bytes;
  return out;
}

}  // namespace

void bind_cache(nb::module_& module) {
  nb::class_<ShardCache>(module, "ShardCache", "See stoker.Cache.")
      .def("stats", &stats_of, nb::sig("def stats(self) -> dict[str, int]"))
      .def_prop_ro(
          "trouble", [](const ShardCache& self) { return std::string(self.trouble().message()); },
          "Why the cache did not work at some time; empty if it always did.");
  module.def(
      "open_cache",
      [](const std::string& directory, std::uint64_t size_bytes) {
        Result<std::shared_ptr<ShardCache>> cache = [&] {
          const ReleasedGil unlocked;
          return ShardCache::open({.directory = directory, .size_bytes = size_bytes});
        }();
        raise_if_failed(cache.status());
        return *std::move(cache);
      },
      "directory"_a, "size_bytes"_a, "Opens or creates a cache.");
}

}  // namespace stoker::python
