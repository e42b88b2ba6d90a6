#include "dataset/batch/field_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>

#include "dataset/batch/field_number.h"
#include "formats/json/strict_json.h"
#include "formats/utf8.h"

namespace stoker::internal {
namespace {

std::string_view text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
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
                  fmt::format("it has {} values, but one was requested", view.element_count()));
  return load_number(view.dtype, view.data);
}

}  // namespace

Result<std::int64_t> read_int64(const FieldView& field, ArrayReader& arrays) {
  STOKER_ASSIGN(const Number number,
                is_typed(field) ? read_typed(field, arrays) : parse_integer(field.bytes));
  return to_int64(number);
}

Result<double> read_float64(const FieldView& field, ArrayReader& arrays) {
  STOKER_ASSIGN(const Number number,
                is_typed(field) ? read_typed(field, arrays) : parse_real(field.bytes));
  return to_float64(number);
}

Result<bool> read_bool(const FieldView& field, ArrayReader& arrays) {
  if (is_typed(field)) {
    STOKER_ASSIGN(const Number number, read_typed(field, arrays));
    if (number.real == 0 || number.real == 1) return number.real == 1;
    return Status(
        Code::invalid_argument,
        fmt::format("it is {}, but a boolean was requested: ask for int or float", number.real));
  }
  std::string_view text = text_of(field.bytes);
  constexpr std::string_view kSpace = " \t\r\n";
  text.remove_prefix(std::min(text.find_first_not_of(kSpace), text.size()));
  text = text.substr(0, text.find_last_not_of(kSpace) + 1);
  if (text == "true" || text == "True" || text == "1") return true;
  if (text == "false" || text == "False" || text == "0") return false;
  return Status(Code::invalid_argument,
                fmt::format("it is {}, not true or false", quote_for_message(text)));
}

Status check_text(const FieldView& field) {
  if (field.type != FieldType::text && field.type != FieldType::json &&
      field.type != FieldType::bytes)
    return Status(Code::invalid_argument, "it contains numbers, but text was requested");
  if (is_utf8(field.bytes)) return {};
  // Untyped bytes that are not text, an image for example, are not corrupt.
  return field.type == FieldType::bytes
             ? Status(Code::invalid_argument, "it is not UTF-8: ask for bytes")
             : Status(Code::corrupt, "it is not UTF-8");
}

Result<const Json*> JsonFields::find(const FieldView& field, std::string_view path) {
  if (is_typed(field)) return Status(Code::invalid_argument, "it contains numbers, not JSON");
  if (parsed_.data() != field.bytes.data() || parsed_.size() != field.bytes.size()) {
    parsed_ = {};
    STOKER_ASSIGN(document_,
                  parse_strict_json(text_of(field.bytes), "its JSON", {.accepts_nonfinite = true}));
    parsed_ = field.bytes;
  }
  const Json* at = &document_;
  for (std::string_view rest = path; !rest.empty();) {
    const std::size_t dot = rest.find('.');
    const std::string_view step = rest.substr(0, dot);
    rest = dot == std::string_view::npos ? std::string_view() : rest.substr(dot + 1);
    const Json* next = nullptr;
    if (at->is_object()) {
      next = at->find(step);
    } else if (at->is_array()) {
      std::size_t index = 0;
      const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
      if (error == std::errc{} && end == step.data() + step.size() && index < at->size())
        next = &(*at)[index];
    }
    if (next == nullptr)
      return Status(Code::invalid_argument,
                    fmt::format("its JSON has no {} (at {})", quote_for_message(path),
                                quote_for_message(step)));
    at = next;
  }
  return at;
}

Result<std::int64_t> json_int64(const Json& value) {
  if (value.is_number_unsigned()) {
    const std::uint64_t number = value.get_uint64();
    if (number <= static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
      return static_cast<std::int64_t>(number);
  } else if (value.is_number_integer()) {
    return value.get_int64();
  } else if (value.is_boolean()) {
    return value.get_bool() ? 1 : 0;
  }
  return Status(Code::invalid_argument,
                fmt::format("its JSON value is {}, not an integer of 64 bits",
                            value.is_number() ? "a number" : value.type_name()));
}

Result<double> json_float64(const Json& value) {
  if (value.is_number_unsigned()) {
    const std::uint64_t number = value.get_uint64();
    return to_float64({.integer = number, .real = static_cast<double>(number)});
  }
  if (value.is_number_integer()) {
    const std::int64_t number = value.get_int64();
    return to_float64({.integer = number, .real = static_cast<double>(number)});
  }
  if (value.is_number()) return value.get_double();
  return Status(Code::invalid_argument,
                fmt::format("its JSON value is {}, not a number", value.type_name()));
}

}  // namespace stoker::internal
