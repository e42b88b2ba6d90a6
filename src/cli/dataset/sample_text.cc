#include "cli/dataset/sample_text.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

namespace stoker::cli {
namespace {

using nlohmann::ordered_json;

std::string_view text_of(const FieldView& field) {
  return {reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size()};
}

/// One number as itself, none or several as a list.
template <typename T>
ordered_json numbers(std::span<const std::byte> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  if (values.size() == 1) return values.front();
  return values;
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

ordered_json describe_field(const FieldView& field) {
  ordered_json described = {{"size_bytes", field.bytes.size()},
                            {"type", field_type_name(field.type)}};
  if (field.type == FieldType::array) {
    described["dtype"] = field.dtype;
    described["shape"] = std::vector<std::uint64_t>(field.shape.begin(), field.shape.end());
  }
  return described;
}

ordered_json field_value(const FieldView& field) {
  if (field.bytes.size() > kSmallFieldBytes) return describe_field(field);
  switch (field.type) {
    case FieldType::text: return std::string(text_of(field));
    case FieldType::json: {
      ordered_json parsed = ordered_json::parse(text_of(field), nullptr, false);
      return parsed.is_discarded() ? ordered_json(std::string(text_of(field))) : parsed;
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
