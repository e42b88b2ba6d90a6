#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "formats/tfrecord/tf_example.h"
#include "formats/utf8.h"

namespace stoker {
namespace {

/// A field to be written as a Feature, with the sizes that precede its bytes.
struct Feature {
  const FieldView* field = nullptr;
  std::uint32_t kind = 0;           // the number of its list in the oneof
  std::uint64_t packed_bytes = 0;   // numbers: the packed values
  std::uint64_t list_bytes = 0;     // the encoded list
  std::uint64_t feature_bytes = 0;  // the encoded Feature
  std::uint64_t entry_bytes = 0;    // the encoded entry of the map
};

Status refuse(const FieldView& field, const std::string& why) {
  return Status(Code::invalid_argument, "field '" + std::string(field.name) + "': " + why);
}

std::uint64_t int64_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint64_t value = 0;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

Status check_bytes_list(const FieldView& field) {
  BytesListReader reader(field.bytes);
  for (std::span<const std::byte> value;;) {
    const Result<bool> more = reader.next(value);
    if (!more.ok())
      return refuse(field, "not a BytesList: " + std::string(more.status().message()));
    if (!*more) break;
  }
  return reader.skipped() ? refuse(field, "not a BytesList: it holds other fields") : Status();
}

Status measure_list(Feature& feature) {
  const FieldView& field = *feature.field;
  const std::size_t size_bytes = field.bytes.size();
  switch (field.type) {
    case FieldType::bytes:
    case FieldType::text:
    case FieldType::json:
      feature.kind = 1;
      feature.list_bytes = delimited_size_bytes(size_bytes);
      return {};
    case FieldType::float32:
      if (size_bytes % sizeof(float) != 0) return refuse(field, "its float32s are not whole");
      feature.kind = 2;
      feature.packed_bytes = size_bytes;
      break;
    case FieldType::int64:
      if (size_bytes % sizeof(std::int64_t) != 0) return refuse(field, "its int64s are not whole");
      feature.kind = 3;
      for (std::size_t i = 0; i < size_bytes; i += sizeof(std::int64_t))
        feature.packed_bytes += varint_size_bytes(int64_at(field.bytes, i));
      break;
    case FieldType::float64:
      return refuse(field, "an Example has no float64; convert it to float32, or write its bytes");
    case FieldType::array:
      if (field.dtype != kBytesListDtype)
        return refuse(field, "an Example has no arrays of " + std::string(field.dtype) +
                                 "; write its bytes, and its shape as an int64 field beside it");
      STOKER_TRY(check_bytes_list(field));
      feature.kind = 1;
      feature.list_bytes = size_bytes;
      return {};
  }
  feature.list_bytes = feature.packed_bytes == 0 ? 0 : delimited_size_bytes(feature.packed_bytes);
  return {};
}

Status measure(Feature& feature) {
  const FieldView& field = *feature.field;
  if (!is_utf8(std::as_bytes(std::span(field.name))))
    return refuse(field, "the name is not UTF-8, as an Example demands");
  STOKER_TRY(measure_list(feature));
  feature.feature_bytes = delimited_size_bytes(feature.list_bytes);
  feature.entry_bytes =
      delimited_size_bytes(field.name.size()) + delimited_size_bytes(feature.feature_bytes);
  return {};
}

void put_header(std::vector<std::byte>& out, std::uint32_t number, std::uint64_t size_bytes) {
  put_tag(out, number, WireType::delimited);
  put_varint(out, size_bytes);
}

void put_feature(std::vector<std::byte>& out, const Feature& feature) {
  const FieldView& field = *feature.field;
  put_header(out, 1, feature.entry_bytes);
  put_delimited(out, 1, std::as_bytes(std::span(field.name)));
  put_header(out, 2, feature.feature_bytes);
  put_header(out, feature.kind, feature.list_bytes);
  if (field.type == FieldType::array) {
    out.insert(out.end(), field.bytes.begin(), field.bytes.end());
  } else if (field.type != FieldType::int64) {
    if (feature.list_bytes != 0) put_delimited(out, 1, field.bytes);
  } else if (feature.packed_bytes != 0) {
    put_header(out, 1, feature.packed_bytes);
    for (std::size_t i = 0; i < field.bytes.size(); i += sizeof(std::int64_t))
      put_varint(out, int64_at(field.bytes, i));
  }
}

}  // namespace

Status put_example(const SampleView& sample, std::string_view key_field,
                   std::vector<std::byte>& out) {
  const FieldView key{.name = key_field, .bytes = std::as_bytes(std::span(sample.key))};
  std::vector<Feature> features;
  features.reserve(sample.fields.size() + 1);
  for (const FieldView& field : sample.fields) features.push_back({.field = &field});
  if (!key_field.empty()) features.push_back({.field = &key});
  if (features.size() > kExampleFeaturesMax)
    return Status(Code::invalid_argument, "a sample of " + std::to_string(features.size()) +
                                              " fields; an Example may have " +
                                              std::to_string(kExampleFeaturesMax));
  const auto name_of = [](const Feature& feature) { return feature.field->name; };
  std::ranges::sort(features, {}, name_of);
  if (const auto twice = std::ranges::adjacent_find(features, {}, name_of); twice != features.end())
    return refuse(*twice->field, "duplicate name");

  std::uint64_t size_bytes = 0;  // cannot overflow: sizes of memory; a varint has 10 bytes per 8
  for (Feature& feature : features) {
    STOKER_TRY(measure(feature));
    size_bytes += delimited_size_bytes(feature.entry_bytes);
  }
  if (delimited_size_bytes(size_bytes) > std::numeric_limits<std::int32_t>::max())
    return Status(Code::invalid_argument, "a sample of " + std::to_string(size_bytes) +
                                              " bytes; protobuf reads less than 2 GiB");
  out.reserve(out.size() + delimited_size_bytes(size_bytes));
  put_header(out, 1, size_bytes);
  for (const Feature& feature : features) put_feature(out, feature);
  return {};
}

}  // namespace stoker
