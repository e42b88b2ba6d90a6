#include "cli/sample_text.h"

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

/// Of the first character in UTF-8; 0 if it is none.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  if (first < 0x80) return 1;
  const std::size_t size = first < 0xc2 ? 0 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
  if (size == 0 || first > 0xf4 || text.size() < size) return 0;
  for (const char c : text.substr(1, size - 1))
    if ((static_cast<unsigned char>(c) & 0xc0U) != 0x80) return 0;
  return size;
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

std::string printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const std::size_t size = character_bytes(text);
    const auto first = static_cast<unsigned char>(text[0]);
    // In UTF-8 the control characters from U+0080 to U+009F are 0xc2 and their number.
    const bool is_control = size == 1 ? first < 0x20 || first == 0x7f
                                      : first == 0xc2 && static_cast<unsigned char>(text[1]) < 0xa0;
    if (size == 0 || is_control)
      safe += '?';
    else
      safe += text.substr(0, size);
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return safe;
}

std::string to_line(const ordered_json& value) {
  return value.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
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
