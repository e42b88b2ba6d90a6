/// \file
/// A JSON value, to build and write, or to read after parse_strict_json(). Every function is
/// defined in json.cc, to keep this header light.
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

/// How Json::dump() writes. Bytes that are not UTF-8 are replaced by U+FFFD.
struct JsonStyle {
  std::size_t indent_spaces = 0;  ///< 0: one line without spaces.
  bool is_ascii = false;          ///< Escape all other characters.
  bool is_sorted = false;         ///< Write members sorted by name, not in insertion order.
};

/// Null, a boolean, a number, a string, an array or an object.
///
/// No function fails: if a value has another type than asked for, the result is 0, empty or null. A
/// moved-from value is null.
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
  /// A number of any kind.
  bool is_number() const noexcept;
  /// A signed or unsigned integer.
  bool is_number_integer() const noexcept;
  /// An unsigned integer, which is what every integer parsed without a minus sign becomes.
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
  /// Returns an integer, modulo 2^64 if it does not fit the type.
  std::int64_t get_int64() const noexcept;
  std::uint64_t get_uint64() const noexcept;
  /// Returns a number of any kind as a double.
  double get_double() const noexcept;
  const std::string& get_string() const noexcept;

  /// The number of elements or members.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  std::span<const Json> elements() const noexcept;
  /// Returns null if there is no such element.
  const Json& operator[](std::size_t index) const noexcept;
  /// Appends to an array; any other value becomes an empty array first. The reference is valid
  /// until the next call.
  Json& push_back(Json value);

  /// Returns the member, or null if there is none. Takes O(log n).
  const Json* find(std::string_view name) const;
  bool contains(std::string_view name) const { return find(name) != nullptr; }
  /// Returns the member, which is added as null if it is missing. Any other value becomes an empty
  /// object first. The reference is valid as long as the object.
  Json& operator[](std::string_view name);
  /// Adds a member as null and returns it; null if there is one of that name. Any other value
  /// becomes an empty object first. The address is valid as long as the object.
  Json* try_add(std::string name);
  /// Returns the members, sorted by the bytes of their names: for (const auto& [name, value] :
  /// json.sorted_items()).
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

/// A member of an object that is being built. The constructor of the object moves the value out.
struct Json::Field {
  std::string_view name;
  mutable Json value;
};

/// Returns `text` as a JSON string, as Json(text).dump() writes it.
std::string quote_json(std::string_view text, bool is_ascii = false);

}  // namespace stoker
