#include "ingest_arguments.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string>

namespace nb = nanobind;

namespace stoker::python {
namespace {

FieldType parse_field_type(const std::string& name) {
  if (name == "text") return FieldType::text;
  if (name == "json") return FieldType::json;
  if (name == "int64") return FieldType::int64;
  if (name == "float64") return FieldType::float64;
  if (name == "array") return FieldType::array;
  return FieldType::bytes;
}

}  // namespace

std::vector<IngestedSample> to_samples(const nb::list& list) {
  std::vector<IngestedSample> samples;
  samples.reserve(list.size());
  for (nb::handle item : list) {
    IngestedSample& sample = samples.emplace_back();
    sample.key = nb::cast<std::string>(item[0]);
    for (nb::handle field : nb::borrow<nb::list>(item[1])) {
      const auto bytes = nb::cast<nb::bytes>(field[4]);
      sample.fields.push_back(
          {.name = nb::cast<std::string>(field[0]),
           .type = parse_field_type(nb::cast<std::string>(field[1])),
           .dtype = nb::cast<std::string>(field[2]),
           .shape = nb::cast<std::vector<std::uint64_t>>(field[3]),
           .bytes = {static_cast<const std::byte*>(bytes.data()), bytes.size()}});
    }
  }
  return samples;
}

}  // namespace stoker::python
