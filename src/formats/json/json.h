/// \file
/// A JSON value, to be built and written, or read after parse_strict_json(). Every function is
/// compiled in json.cc, so that this header is light to include.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace stoker {

/// How Json::dump() writes. What is not UTF-8 is replaced by U+FFFD.
struct JsonStyle {
  std::size_t indent_spaces = 0;  ///< 0: one line without spaces.
  bool is_ascii = false;          ///< Other characters are escaped.
  bool is_sorted = false;         ///< Members by name instead of in the order they were added.
};

/// Null, a boolean, a number, a string, an array or an object.
///
/// No function fails: where a value is of another type than asked for, the answer is 0, empty or
/// null. One that was moved from is null.
///
/// Thread safety: const methods from any thread.
class Json {
 public:
  struct Field;
  using Members = std::map<std::string, Json, std::less<>>;

  // NOLINTBEGIN(google-explicit-constructor): a value stands for itself where a Json is expected.
  Json() noexcept;
  Json(std::nullptr_t) noexcept;
  Json(bool value) noexcept;
  Json(int value) noexcept;
  Json(long value) noexcept;
  Json(long long value) noexcept;
  Json(unsigned value) noexcept;
  Json(unsigned long value) noexcept;
  Json(unsigned long long value) noexcept;
  Json(double value) noexcept;
  Json(const char* text);
  Json(std::string_view text);
  Json(std::string text);
  Json(const void*) = delete;  // or it would be a boolean
  /// An object: {{"name", 1}, {"inner", {{"a", "b"}}}}.
  Json(std::initializer_list<Field> fields);
  // NOLINTEND(google-explicit-constructor)
  Json(Json&& other) noexcept;
  Json& operator=(Json&& other) noexcept;
  ~Json();

  static Json array();
  static Json object();
  /// An array of the elements of a container.
  static Json array_of(const auto& values) {
    Json list = array();
    for (const auto& value : values) list.push_back(value);
    return list;
  }

  bool is_null() const noexcept;
  bool is_boolean() const noexcept;
  /// Of any kind.
  bool is_number() const noexcept;
  /// Signed or unsigned.
  bool is_number_integer() const noexcept;
  /// Every integer that was parsed without a minus is.
  bool is_number_unsigned() const noexcept;
  bool is_number_float() const noexcept;
  bool is_string() const noexcept;
  bool is_array() const noexcept;
  bool is_object() const noexcept;
  /// An array or an object.
  bool is_structured() const noexcept;
  /// For messages: "null", "boolean", "number", "string", "array" or "object".
  const char* type_name() const noexcept;

  bool get_bool() const noexcept;
  /// Of an integer; modulo 2^64 if it has no place in the type.
  std::int64_t get_int64() const noexcept;
  std::uint64_t get_uint64() const noexcept;
  /// Of any number.
  double get_double() const noexcept;
  const std::string& get_string() const noexcept;

  /// The number of elements or members.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  std::span<const Json> elements() const noexcept;
  /// Null if there is no such element.
  const Json& operator[](std::size_t index) const noexcept;
  /// Adds to an array, which null becomes. Valid until the next call.
  Json& push_back(Json value);

  /// Takes O(log n), whatever the names are.
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// The member of an object, which null becomes; null if it is new. Valid as long as the object.
  Json& operator[](std::string_view name);
  /// In order of the bytes of their names: for (const auto& [name, value] : json.sorted_items()).
  const Members& sorted_items() const noexcept;

  std::string dump(const JsonStyle& style = {}) const;

 private:
  struct Object;
  using Array = std::vector<Json>;

  template <typename T>
  const T* boxed() const noexcept;
  void append_to(std::string& out, const JsonStyle& style, std::size_t indent_spaces) const;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double,
               std::unique_ptr<std::string>, std::unique_ptr<Array>, std::unique_ptr<Object>>
      value_;
};

/// A member of an object that is being built. The object takes the value away.
struct Json::Field {
  std::string_view name;
  mutable Json value;
};

/// `text` as a JSON string: what Json(text).dump() writes.
std::string quote_json(std::string_view text, bool is_ascii = false);

}  // namespace stoker
