#include "dataset/field_values.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cstring>
#include <limits>
#include <optional>

#include "formats/protobuf_wire.h"
#include "formats/strict_json.h"

namespace stoker::internal {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

bool is_space(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

std::string_view trim(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return text;
}

template <typename Number>
Result<Number> parse_number(std::span<const std::byte> bytes, std::string_view what) {
  std::string_view text = trim(text_of(bytes));
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc{} && end == text.data() + text.size()) return value;
  return Status(Code::corrupt, fmt::format("{} is no {}", quote_for_message(text_of(bytes)), what));
}

/// IEEE half precision.
double half_to_double(std::uint16_t bits) {
  const int exponent = (bits >> 10) & 31;
  const double fraction = (bits & 1023) / 1024.0;
  double value = 0;
  if (exponent == 31) {
    value = (bits & 1023) != 0 ? std::numeric_limits<double>::quiet_NaN()
                               : std::numeric_limits<double>::infinity();
  } else {
    const double scale =
        exponent == 0 ? 0x1p-14 : std::bit_cast<double>(std::uint64_t(exponent - 15 + 1023) << 52);
    value = scale * (exponent == 0 ? fraction : 1 + fraction);
  }
  return (bits & 0x8000) != 0 ? -value : value;
}

template <typename T>
T load(std::span<const std::byte> bytes) {
  T value{};
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

struct Number {
  bool is_integer = true;
  std::int64_t integer = 0;
  double real = 0;
};

Number integer_number(std::int64_t value) {
  return {.integer = value, .real = static_cast<double>(value)};
}
Number real_number(double value) {
  return {.is_integer = false, .real = value};
}

Result<Number> load_number(Dtype dtype, std::span<const std::byte> bytes) {
  switch (dtype) {
    case Dtype::uint8:
    case Dtype::boolean: return integer_number(load<std::uint8_t>(bytes));
    case Dtype::int8: return integer_number(load<std::int8_t>(bytes));
    case Dtype::uint16: return integer_number(load<std::uint16_t>(bytes));
    case Dtype::int16: return integer_number(load<std::int16_t>(bytes));
    case Dtype::uint32: return integer_number(load<std::uint32_t>(bytes));
    case Dtype::int32: return integer_number(load<std::int32_t>(bytes));
    case Dtype::int64: return integer_number(load<std::int64_t>(bytes));
    case Dtype::uint64: {
      const auto value = load<std::uint64_t>(bytes);
      if (value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
        return Status(Code::corrupt, fmt::format("{} is more than an int64 holds", value));
      return integer_number(static_cast<std::int64_t>(value));
    }
    case Dtype::float16: return real_number(half_to_double(load<std::uint16_t>(bytes)));
    case Dtype::bfloat16:
      return real_number(std::bit_cast<float>(std::uint32_t{load<std::uint16_t>(bytes)} << 16));
    case Dtype::float32: return real_number(load<float>(bytes));
    case Dtype::float64: return real_number(load<double>(bytes));
  }
  return Status(Code::unsupported, "an element type without a number");
}

bool is_typed(const FieldView& field) {
  return field.type == FieldType::int64 || field.type == FieldType::float32 ||
         field.type == FieldType::float64 || field.type == FieldType::array ||
         (field.type == FieldType::bytes && looks_like_npy(field.bytes));
}

Result<Number> read_typed(const FieldView& field, ArrayReader& arrays) {
  STOKER_ASSIGN(const ArrayView view, arrays.read(field, {}));
  if (view.element_count() != 1)
    return Status(Code::invalid_argument,
                  fmt::format("it has {} values, and one was asked for", view.element_count()));
  return load_number(view.dtype, view.data);
}

}  // namespace

Result<std::int64_t> read_int64(const FieldView& field, ArrayReader& arrays) {
  if (!is_typed(field)) return parse_number<std::int64_t>(field.bytes, "integer");
  STOKER_ASSIGN(const Number number, read_typed(field, arrays));
  if (!number.is_integer)
    return Status(Code::invalid_argument, "it is a real number, and an integer was asked for");
  return number.integer;
}

Result<double> read_float64(const FieldView& field, ArrayReader& arrays) {
  if (!is_typed(field)) return parse_number<double>(field.bytes, "number");
  STOKER_ASSIGN(const Number number, read_typed(field, arrays));
  return number.real;
}

Status check_text(const FieldView& field) {
  if (field.type != FieldType::text && field.type != FieldType::json &&
      field.type != FieldType::bytes)
    return Status(Code::invalid_argument, "it holds numbers, and text was asked for");
  if (!is_utf8(field.bytes)) return Status(Code::corrupt, "it is not UTF-8");
  return {};
}

Result<const nlohmann::json*> JsonFields::find(const FieldView& field, std::string_view path) {
  if (is_typed(field)) return Status(Code::invalid_argument, "it holds numbers and no JSON");
  if (parsed_.data() != field.bytes.data() || parsed_.size() != field.bytes.size()) {
    parsed_ = {};
    STOKER_ASSIGN(document_, parse_strict_json(text_of(field.bytes), "its JSON"));
    parsed_ = field.bytes;
  }
  const nlohmann::json* at = &document_;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t dot = rest.find('.');
    const std::string_view step = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    const nlohmann::json* next = nullptr;
    if (at->is_object()) {
      const auto found = at->find(step);
      if (found != at->end()) next = &*found;
    } else if (at->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
      if (error == std::errc{} && end == step.data() + step.size() && index < at->size())
        next = &(*at)[index];
    }
    if (next == nullptr)
      return Status(Code::corrupt, fmt::format("its JSON has no {} (at {})",
                                               quote_for_message(path), quote_for_message(step)));
    at = next;
  }
  return at;
}

Result<std::int64_t> json_int64(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return static_cast<std::int64_t>(number);
  } else if (value.is_number_integer()) {
    return value.get<std::int64_t>();
  } else if (value.is_boolean()) {
    return value.get<bool>() ? 1 : 0;
  }
  return Status(Code::corrupt, fmt::format("its JSON value is {}, not an integer of 64 bits",
                                           value.is_number() ? "a number" : value.type_name()));
}

Result<double> json_float64(const nlohmann::json& value) {
  if (value.is_number()) return value.get<double>();
  return Status(Code::corrupt,
                fmt::format("its JSON value is {}, not a number", value.type_name()));
}

}  // namespace stoker::internal
