#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/for_each_position.h"
#include "bind.h"
#include "dataset/input/input.h"
#include "dataset/shard_dataset.h"
#include "raise.h"
#include "sample_object.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace stoker::python {
namespace {

using SampleIds = nb::ndarray<const std::int64_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
using OutArray = nb::ndarray<nb::c_contig, nb::device::cpu>;

std::shared_ptr<const ShardDataset> open_dataset(const std::vector<std::string>& patterns,
                                                 ShardDataset::Options options) {
  auto opened = interruptible([&](std::stop_token stop) {
    options.index.stop = std::move(stop);
    return ShardDataset::open(patterns, options);
  });
  const std::optional<CorruptPlace> place = place_in(opened.status().message());
  raise_if_failed(opened.status(), place ? &*place : nullptr);
  return *std::move(opened);
}

/// Raises for a sample that could not be read. `key` is empty if the key could not be read either.
void raise_for_sample(const ShardDataset& dataset, std::uint64_t sample, const Status& status,
                      const std::string& key = {}) {
  CorruptPlace place;
  if (const Result<SampleLocation> at = dataset.index().locate(sample); at.ok()) {
    place.path = dataset.source().uri_of(at->shard);
    place.offset_bytes = at->record.offset_bytes;
    place.key = dataset.numbered_key(sample, at->shard);
  }
  const std::optional<CorruptPlace> told = place_in(status.message());
  if (told && !told->key.empty()) place.key = told->key;
  if (!key.empty()) place.key = key;
  raise_if_failed(status, place.path.empty() ? nullptr : &place);
}

nb::dict to_sample(const ShardDataset& dataset, std::uint64_t sample,
                   std::unique_ptr<SampleRecord> record) {
  const std::string key(key_of(*record));
  Result<nb::dict> made = make_sample(std::move(record), dataset.source().shard_format());
  if (!made.ok())
    raise_for_sample(dataset, sample, made.status().with_context(dataset.describe(sample)), key);
  return *std::move(made);
}

nb::dict read(const ShardDataset& dataset, std::uint64_t sample) {
  auto record = std::make_unique<SampleRecord>();
  const Status status = without_gil([&] { return dataset.read(sample, *record); });
  if (!status.ok()) raise_for_sample(dataset, sample, status);
  return to_sample(dataset, sample, std::move(record));
}

/// Reads samples in parallel, without the GIL, and passes each to `take(position, record)`, which
/// also runs without it.
template <typename Take>
void read_each(const ShardDataset& dataset, const SampleIds& ids, const Take& take) {
  const std::int64_t* samples = ids.data();
  const FirstFailure failure = without_gil([&] {
    return for_each_position(ids.size(), [&](std::size_t position) -> Status {
      auto record = std::make_unique<SampleRecord>();
      STOKER_TRY(dataset.read(static_cast<std::uint64_t>(samples[position]), *record));
      return take(position, std::move(record));
    });
  });
  if (!failure.status.ok())
    raise_for_sample(dataset, static_cast<std::uint64_t>(samples[failure.position]),
                     failure.status);
}

nb::list read_many(const ShardDataset& dataset, const SampleIds& ids) {
  std::vector<std::unique_ptr<SampleRecord>> records(ids.size());
  read_each(dataset, ids, [&](std::size_t position, std::unique_ptr<SampleRecord> record) {
    records[position] = std::move(record);
    return Status();
  });
  nb::list samples;
  for (std::size_t i = 0; i < records.size(); ++i)
    samples.append(
        to_sample(dataset, static_cast<std::uint64_t>(ids.data()[i]), std::move(records[i])));
  return samples;
}

nb::list keys(const ShardDataset& dataset, const SampleIds& ids) {
  std::vector<std::string> found(ids.size());
  read_each(dataset, ids, [&](std::size_t position, std::unique_ptr<SampleRecord> record) {
    found[position] = key_of(*record);
    return Status();
  });
  nb::list names;
  for (const std::string& key : found) names.append(make_str(key));
  return names;
}

/// Compares uncompressed shards with the digests that their format stores, if it does.
void check_digests(const ShardDataset& dataset) {
  const Status status = interruptible([&](const std::stop_token& stop) -> Status {
    for (std::size_t i = 0; i < dataset.source().shards().size(); ++i) {
      if (stop.stop_requested()) return Status(Code::cancelled, "stopped while checking digests");
      STOKER_TRY(internal::check_digests(dataset.source(), i));
    }
    return {};
  });
  const std::optional<CorruptPlace> place = place_in(status.message());
  raise_if_failed(status, place ? &*place : nullptr);
}

/// Only checks: making views would need the GIL.
void check(const ShardDataset& dataset, const SampleIds& ids) {
  read_each(dataset, ids,
            [](std::size_t, const std::unique_ptr<SampleRecord>&) { return Status(); });
}

void gather(const ShardDataset& dataset, const SampleIds& ids, const std::string& field_name,
            const std::string& dtype, const std::vector<std::uint64_t>& shape, OutArray out) {
  if (ids.size() == 0) return;
  const std::size_t row_bytes = out.nbytes() / ids.size();
  auto* rows = static_cast<std::byte*>(out.data());
  read_each(dataset, ids, [&](std::size_t position, const std::unique_ptr<SampleRecord>& record) {
    const FieldView* field = record->view().find(field_name);
    const std::string sample = "sample " + std::to_string(ids.data()[position]);
    if (field == nullptr)
      return Status(Code::invalid_argument, sample + " has no field '" + field_name + "'");
    const bool is_flat = field->type != FieldType::array;  // its size determines its shape
    if (numpy_dtype(*field) != dtype || field->bytes.size() != row_bytes ||
        !(is_flat ||
          std::equal(field->shape.begin(), field->shape.end(), shape.begin(), shape.end())))
      return Status(Code::invalid_argument,
                    sample + ": field '" + field_name + "' has " +
                        std::to_string(field->bytes.size()) + " bytes of " +
                        std::string(numpy_dtype(*field)) + ", and the first one had " +
                        std::to_string(row_bytes) + " of " + dtype +
                        " or another shape: gather() needs fields of one shape");
    if (row_bytes > 0) std::memcpy(rows + position * row_bytes, field->bytes.data(), row_bytes);
    return Status();
  });
}

bool has_key_field(const ShardDataset& dataset) {
  SampleRecord record;
  return dataset.sample_count() > 0 && without_gil([&] { return dataset.read(0, record); }).ok() &&
         record.view().find(kKeyField) != nullptr;
}

nb::list shards(const ShardDataset& dataset) {
  nb::list found;
  for (std::size_t i = 0; i < dataset.index().shards().size(); ++i) {
    const IndexedShard& shard = dataset.index().shards()[i];
    found.append(nb::make_tuple(make_str(shard.name), make_str(dataset.source().uri_of(i)),
                                shard.size_bytes, shard.sample_count));
  }
  return found;
}

}  // namespace

// Native threads never take the GIL: records are read without it and converted to Python objects
// with it.
void bind_dataset(nb::module_& module) {
  nb::class_<ShardDataset>(module, "Dataset", "Use stoker.Dataset.")
      .def("__len__", &ShardDataset::sample_count)
      .def("read", &read, "sample"_a, nb::sig("def read(self, sample: int) -> dict[str, Any]"),
           "Reads one sample. Its arrays are views of the bytes that were read.")
      .def("read_many", &read_many, "samples"_a,
           nb::sig("def read_many(self, samples: NDArray[numpy.int64]) -> list[dict[str, Any]]"))
      .def("keys", &keys, "samples"_a,
           nb::sig("def keys(self, samples: NDArray[numpy.int64]) -> list[str]"))
      .def("check", &check, "samples"_a,
           nb::sig("def check(self, samples: NDArray[numpy.int64]) -> None"),
           "Reads samples and raises for the first that cannot be read.")
      .def("check_digests", &check_digests, nb::sig("def check_digests(self) -> None"),
           "Raises for the first shard that does not match the digests of its format.")
      .def("gather", &gather, "samples"_a, "field"_a, "dtype"_a, "shape"_a, "out"_a,
           nb::sig("def gather(self, samples: NDArray[numpy.int64], field: str, dtype: str, "
                   "shape: Sequence[int], out: NDArray[Any]) -> None"),
           "Copies a field of each sample into the rows of `out`.")
      .def_prop_ro("fingerprint",
                   [](const ShardDataset& self) { return self.index().fingerprint().hex(); })
      .def_prop_ro("format",
                   [](const ShardDataset& self) { return std::string(self.source().format()); })
      .def_prop_ro("directory", [](const ShardDataset& self) { return self.source().uri(); })
      .def_prop_ro("is_local",
                   [](const ShardDataset& self) { return self.source().store().is_local(); })
      .def_prop_ro(
          "index_refused",
          [](const ShardDataset& self) { return std::string(self.index_refused().message()); })
      .def_prop_ro("whole_directories",
                   [](const ShardDataset& self) { return self.source().whole_directories(); })
      .def_prop_ro("has_checksums",
                   [](const ShardDataset& self) { return self.index().has_checksums(); })
      .def_prop_ro(
          "plain_size_bytes",
          [](const ShardDataset& self) {
            std::uint64_t total = 0;
            for (const IndexedShard& shard : self.index().shards()) total += shard.plain_size_bytes;
            return total;
          },
          "Size of all shards, uncompressed.")
      .def_prop_ro("has_key_field", &has_key_field,
                   "Whether the first sample has a key field, which formats without keys may have.")
      .def_prop_ro("shards", &shards,
                   nb::sig("def shards(self) -> list[tuple[str, str, int, int]]"),
                   "Name, path, size in bytes and number of samples of each shard.");
  module.def(
      "open_dataset",
      [](const std::vector<std::string>& patterns, const std::string& format,
         const std::string& dtype, bool checksums, const std::string& cache_directory,
         const std::string& policy, std::shared_ptr<ShardCache> cache,
         std::shared_ptr<ObjectStore> store) {
        ShardDataset::Options options;
        options.source.format = format;
        options.source.s3 = S3Options::from_environment();
        options.source.store = std::move(store);
        if (!dtype.empty()) options.source.dtype = value_or_raise(parse_dtype(dtype));
        options.index.checksums = checksums;
        options.index.cache_directory = cache_directory;
        options.index.in_memory = true;
        options.policy = value_or_raise(parse_cache_policy(policy));
        options.cache = std::move(cache);
        return std::const_pointer_cast<ShardDataset>(open_dataset(patterns, std::move(options)));
      },
      "patterns"_a, "format"_a = "", "dtype"_a = "", "checksums"_a = false,
      "cache_directory"_a = "", "policy"_a = "auto", "cache"_a.none() = nb::none(),
      "store"_a.none() = nb::none(),
      "Opens shards and their index; builds the index if there is none.");
}

}  // namespace stoker::python
