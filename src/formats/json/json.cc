#include "formats/json/json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "formats/utf8.h"

namespace stoker {
namespace {

void append_escaped(std::string& out, std::uint32_t unit) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  out += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) out += kDigits[unit >> shift & 0xF];
}

void append_character(std::string& out, std::string_view bytes, char32_t code, bool is_ascii) {
  switch (code) {
    case '\b': out += "\\b"; return;
    case '\t': out += "\\t"; return;
    case '\n': out += "\\n"; return;
    case '\f': out += "\\f"; return;
    case '\r': out += "\\r"; return;
    case '"': out += "\\\""; return;
    case '\\': out += "\\\\"; return;
    default: break;
  }
  if (code >= 0x20 && (code < 0x7F || !is_ascii)) {
    out += bytes;
  } else if (code <= 0xFFFF) {
    append_escaped(out, code);
  } else {
    append_escaped(out, 0xD7C0 + (code >> 10));
    append_escaped(out, 0xDC00 + (code & 0x3FF));
  }
}

void append_quoted(std::string& out, std::string_view text, bool is_ascii) {
  const auto is_plain = [](char c) { return c >= ' ' && c < 0x7F && c != '"' && c != '\\'; };
  out += '"';
  for (;;) {
    const auto end = std::ranges::find_if_not(text, is_plain);
    out.append(text.begin(), end);
    text = {end, text.end()};
    if (text.empty()) break;
    const Utf8Character character = decode_utf8(text);
    if (character.is_valid) {
      append_character(out, text.substr(0, character.size_bytes), character.code, is_ascii);
    } else {
      append_character(out, "\xEF\xBF\xBD", 0xFFFD, is_ascii);
    }
    text.remove_prefix(character.size_bytes);
  }
  out += '"';
}

template <typename Integer>
void append_integer(std::string& out, Integer value) {
  std::array<char, 24> digits;
  out.append(digits.data(), std::to_chars(digits.begin(), digits.end(), value).ptr);
}

/// Appends the shortest digits that read back as the same number, with a point or an exponent, so
/// that it stays a float. NaN and infinities become null: JSON has only finite numbers.
void append_double(std::string& out, double value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  // "d.ddde-05"
  std::array<char, 32> text;
  const char* const end =
      std::to_chars(text.begin(), text.end(), std::abs(value), std::chars_format::scientific).ptr;
  const std::string_view all(text.data(), end);
  const std::size_t mark = all.find('e');
  const std::string_view exponent_text = all.substr(mark);
  std::string digits(1, all[0]);
  if (mark > 2) digits += all.substr(2, mark - 2);
  int exponent = 0;
  std::from_chars(end - exponent_text.size() + 2, end, exponent);
  if (exponent_text[1] == '-') exponent = -exponent;

  constexpr int kExponentMin = -4;
  constexpr int kExponentMax = 14;
  if (std::signbit(value)) out += '-';
  if (exponent < kExponentMin || exponent > kExponentMax) {
    out += all;
  } else if (exponent < 0) {
    out.append("0.").append(static_cast<std::size_t>(-exponent - 1), '0').append(digits);
  } else {
    const auto whole = static_cast<std::size_t>(exponent) + 1;
    if (digits.size() <= whole) digits.resize(whole + 1, '0');
    out.append(digits, 0, whole).append(".").append(digits, whole);
  }
}

void append_line(std::string& out, std::size_t indent_spaces) {
  out += '\n';
  out.append(indent_spaces, ' ');
}

}  // namespace

struct Json::Object {
  Members by_name;
  std::vector<const Members::value_type*> in_order;  // nodes of by_name, which do not move

  Json& add(std::string_view name) {
    if (const auto found = by_name.find(name); found != by_name.end()) return found->second;
    return *try_add(std::string(name));
  }

  Json* try_add(std::string name) {
    const std::size_t count = by_name.size();
    // The hint saves the search if the names come in order.
    const auto added = by_name.try_emplace(by_name.end(), std::move(name));
    if (by_name.size() == count) return nullptr;
    in_order.push_back(&*added);
    return &added->second;
  }
};

Json::Json() noexcept = default;
Json::Json(std::nullptr_t) noexcept {}
Json::Json(bool value) noexcept : value_(value) {}
Json::Json(int value) noexcept : value_(std::int64_t{value}) {}
Json::Json(long value) noexcept : value_(std::int64_t{value}) {}
Json::Json(long long value) noexcept : value_(std::int64_t{value}) {}
Json::Json(unsigned value) noexcept : value_(std::uint64_t{value}) {}
Json::Json(unsigned long value) noexcept : value_(std::uint64_t{value}) {}
Json::Json(unsigned long long value) noexcept : value_(std::uint64_t{value}) {}
Json::Json(double value) noexcept : value_(value) {}
Json::Json(const char* text) : Json(std::string(text)) {}
Json::Json(std::string_view text) : Json(std::string(text)) {}
Json::Json(std::string text) : value_(std::make_unique<std::string>(std::move(text))) {}
Json::Json(std::initializer_list<Field> fields) : Json(object()) {
  for (const Field& field : fields) (*this)[field.name] = std::move(field.value);
}
Json::Json(Json&& other) noexcept : value_(std::exchange(other.value_, nullptr)) {}
Json& Json::operator=(Json&& other) noexcept {
  value_ = std::exchange(other.value_, nullptr);
  return *this;
}
Json::~Json() = default;

Json Json::array() {
  Json json;
  json.value_ = std::make_unique<Array>();
  return json;
}

Json Json::object() {
  Json json;
  json.value_ = std::make_unique<Object>();
  return json;
}

template <typename T>
const T* Json::boxed() const noexcept {
  const auto* const box = std::get_if<std::unique_ptr<T>>(&value_);
  return box == nullptr ? nullptr : box->get();
}

bool Json::is_null() const noexcept {
  return std::holds_alternative<std::nullptr_t>(value_);
}
bool Json::is_boolean() const noexcept {
  return std::holds_alternative<bool>(value_);
}
bool Json::is_number() const noexcept {
  return is_number_integer() || is_number_float();
}
bool Json::is_number_integer() const noexcept {
  return std::holds_alternative<std::int64_t>(value_) || is_number_unsigned();
}
bool Json::is_number_unsigned() const noexcept {
  return std::holds_alternative<std::uint64_t>(value_);
}
bool Json::is_number_float() const noexcept {
  return std::holds_alternative<double>(value_);
}
bool Json::is_string() const noexcept {
  return boxed<std::string>() != nullptr;
}
bool Json::is_array() const noexcept {
  return boxed<Array>() != nullptr;
}
bool Json::is_object() const noexcept {
  return boxed<Object>() != nullptr;
}
bool Json::is_structured() const noexcept {
  return is_array() || is_object();
}

const char* Json::type_name() const noexcept {
  if (is_null()) return "null";
  if (is_boolean()) return "boolean";
  if (is_string()) return "string";
  if (is_array()) return "array";
  return is_object() ? "object" : "number";
}

bool Json::get_bool() const noexcept {
  const bool* const value = std::get_if<bool>(&value_);
  return value != nullptr && *value;
}

std::int64_t Json::get_int64() const noexcept {
  return static_cast<std::int64_t>(get_uint64());
}

std::uint64_t Json::get_uint64() const noexcept {
  if (const auto* const value = std::get_if<std::uint64_t>(&value_)) return *value;
  const auto* const value = std::get_if<std::int64_t>(&value_);
  return value == nullptr ? 0 : static_cast<std::uint64_t>(*value);
}

double Json::get_double() const noexcept {
  if (const auto* const value = std::get_if<double>(&value_)) return *value;
  return is_number_unsigned() ? static_cast<double>(get_uint64())
                              : static_cast<double>(get_int64());
}

const std::string& Json::get_string() const noexcept {
  static const std::string kEmpty;
  const std::string* const text = boxed<std::string>();
  return text == nullptr ? kEmpty : *text;
}

std::size_t Json::size() const noexcept {
  return is_object() ? sorted_items().size() : elements().size();
}

std::span<const Json> Json::elements() const noexcept {
  const Array* const elements = boxed<Array>();
  return elements == nullptr ? std::span<const Json>() : *elements;
}

const Json& Json::operator[](std::size_t index) const noexcept {
  static const Json kNull;
  return index < elements().size() ? elements()[index] : kNull;
}

Json& Json::push_back(Json value) {
  if (!is_array()) *this = array();
  return std::get<std::unique_ptr<Array>>(value_)->emplace_back(std::move(value));
}

const Json* Json::find(std::string_view name) const {
  const Members& members = sorted_items();
  const auto found = members.find(name);
  return found == members.end() ? nullptr : &found->second;
}

Json& Json::operator[](std::string_view name) {
  if (!is_object()) *this = object();
  return std::get<std::unique_ptr<Object>>(value_)->add(name);
}

Json* Json::try_add(std::string name) {
  if (!is_object()) *this = object();
  return std::get<std::unique_ptr<Object>>(value_)->try_add(std::move(name));
}

const Json::Members& Json::sorted_items() const noexcept {
  static const Members kEmpty;
  const Object* const object = boxed<Object>();
  return object == nullptr ? kEmpty : object->by_name;
}

std::string Json::dump(const JsonStyle& style) const {
  std::string out;
  append_to(out, style, 0);
  return out;
}

void Json::append_to(std::string& out, const JsonStyle& style, std::size_t indent_spaces) const {
  const std::size_t inner = indent_spaces + style.indent_spaces;
  bool is_first = true;
  const auto begin_item = [&] {
    if (!std::exchange(is_first, false)) out += ',';
    if (style.indent_spaces > 0) append_line(out, inner);
  };
  const auto append_member = [&](const Members::value_type& member) {
    begin_item();
    append_quoted(out, member.first, style.is_ascii);
    out += style.indent_spaces > 0 ? ": " : ":";
    member.second.append_to(out, style, inner);
  };
  const auto end_items = [&](char bracket) {
    if (style.indent_spaces > 0 && !empty()) append_line(out, indent_spaces);
    out += bracket;
  };
  if (const Object* const object = boxed<Object>()) {
    out += '{';
    if (style.is_sorted)
      for (const Members::value_type& member : object->by_name) append_member(member);
    else
      for (const Members::value_type* member : object->in_order) append_member(*member);
    end_items('}');
  } else if (is_array()) {
    out += '[';
    for (const Json& element : elements()) {
      begin_item();
      element.append_to(out, style, inner);
    }
    end_items(']');
  } else if (is_string()) {
    append_quoted(out, get_string(), style.is_ascii);
  } else if (is_number_float()) {
    append_double(out, get_double());
  } else if (is_number_unsigned()) {
    append_integer(out, get_uint64());
  } else if (is_number()) {
    append_integer(out, get_int64());
  } else {
    out += is_null() ? "null" : get_bool() ? "true" : "false";
  }
}

std::string quote_json(std::string_view text, bool is_ascii) {
  std::string out;
  append_quoted(out, text, is_ascii);
  return out;
}

}  // namespace stoker
