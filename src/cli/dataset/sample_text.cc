#include "cli/dataset/sample_text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "formats/json/strict_json.h"

namespace stoker::cli {
namespace {

std::string_view text_of(const FieldView& field) {
  return {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
}

/// Returns one number as a number, none or several as a list.
template <typename T>
Json numbers(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  if (values.size() == 1) return values.front();
  return Json::array_of(values);
}

}  // namespace

std::string_view field_type_name(FieldType type) noexcept {
  switch (type) {
    case FieldType::bytes: return "bytes";
    case FieldType::text: return "text";
    case FieldType::json: return "json";
    case FieldType::int64: return "int64";
    case FieldType::float32: return "float32";
    case FieldType::float64: return "float64";
    case FieldType::array: return "array";
  }
  return "unknown";
}

Json describe_field(const FieldView& field) {
  Json described = {{"size_bytes", field.bytes.size()}, {"type", field_type_name(field.type)}};
  if (field.type == FieldType::array) {
    described["dtype"] = field.dtype;
    described["shape"] = Json::array_of(field.shape);
  }
  return described;
}

Json field_value(const FieldView& field) {
  if (field.bytes.size() > kSmallFieldBytes) return describe_field(field);
  switch (field.type) {
    case FieldType::text: return text_of(field);
    case FieldType::json: {
      Result<Json> parsed = parse_strict_json(text_of(field), field.name);
      return parsed.ok() ? *std::move(parsed) : Json(text_of(field));
    }
    case FieldType::int64: return numbers<std::int64_t>(field.bytes);
    case FieldType::float32: return numbers<float>(field.bytes);
    case FieldType::float64: return numbers<double>(field.bytes);
    case FieldType::bytes:
    case FieldType::array: break;
  }
  return describe_field(field);
}

}  // namespace stoker::cli
