/// \file
/// Tree: the state of a program as a value: numbers, texts, lists, maps, and views of tensors.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "stoker/api.h"
#include "stoker/status.h"
#include "stoker/tensor.h"

namespace stoker {

/// What a checkpoint stores: null, a boolean, a number, a text, bytes, a tensor, a list or a map
/// with texts as keys, in their order.
///
///     stoker::Tree model = {{"weights", stoker::tensor(weights, {256, 3})}, {"epoch", 7}};
///
/// Values that only Python has are read as their plain content, and saved again as what they were:
/// a tuple, a set and a frozenset are lists; an OrderedDict, Counter, defaultdict and Namespace are
/// maps; a dict with other keys than texts is a list of pairs; an enum is its value; paths, types
/// and devices are texts; a complex number is a list of two, a torch.Size a list; an integer beyond
/// 64 bits is a text of digits; a NumPy scalar is a tensor without dimensions and an io.BytesIO one
/// of u8; a module that was saved without its frozen parameters and a tensor subclass are maps.
/// tag() says which it was.
///
/// A Tree is a value: copies are independent, except that views of tensors refer to the same
/// memory. Accessors look only at the kind that they name: they return null or nothing for others.
///
/// Thread safety: const methods from any thread.
class STOKER_API Tree {
 public:
  enum class Kind : std::uint8_t { null, boolean, integer, real, text, bytes, tensor, list, map };
  struct Field;
  using Bytes = std::vector<std::byte>;
  using List = std::vector<Tree>;

  // NOLINTBEGIN(google-explicit-constructor): a value stands for itself where a Tree is expected.
  Tree() noexcept;
  Tree(std::nullptr_t) noexcept;
  template <std::same_as<bool> T>
  Tree(T value) noexcept;
  template <std::integral T>
    requires(!std::same_as<T, bool>)
  Tree(T value) noexcept;
  template <std::floating_point T>
  Tree(T value) noexcept;
  Tree(const char* text);
  Tree(std::string_view text);
  Tree(std::string text);
  Tree(Bytes bytes);
  Tree(TensorView tensor);
  /// A map: {{"name", 1}, {"inner", {{"a", "b"}}}}. Of two fields with one name the later counts.
  Tree(std::initializer_list<Field> fields);
  // NOLINTEND(google-explicit-constructor)
  Tree(const Tree& other);
  Tree(Tree&& other) noexcept;
  Tree& operator=(const Tree& other);
  Tree& operator=(Tree&& other) noexcept;
  ~Tree();

  /// A list: `Tree::list({1, "two", nullptr})`, or of a std::vector<Tree>.
  static Tree list(List items);
  /// A list of the elements of a range: `Tree::list_of(losses)`.
  template <typename Range>
  static Tree list_of(const Range& values) {
    List items;
    for (const auto& value : values) items.emplace_back(value);
    return list(std::move(items));
  }
  /// A map without fields.
  static Tree map();

  Kind kind() const noexcept;
  bool is_null() const noexcept { return kind() == Kind::null; }
  /// The tag of a value that only Python has, such as "!tuple" (docs/formats/checkpoint.md); empty
  /// for the others.
  std::string_view tag() const noexcept;

  std::optional<bool> boolean() const noexcept;
  std::optional<std::int64_t> int64() const noexcept;    ///< Nothing if it does not fit.
  std::optional<std::uint64_t> uint64() const noexcept;  ///< Nothing if it does not fit.
  std::optional<double> real() const noexcept;           ///< An integer is converted.
  const std::string* text() const noexcept;
  const Bytes* bytes() const noexcept;
  const TensorView* tensor() const noexcept;
  TensorView* tensor() noexcept;

  /// The number of items or fields; 0 for other kinds.
  std::size_t size() const noexcept;
  std::span<const Tree> items() const noexcept;
  std::span<Tree> items() noexcept;
  /// Appends to a list; any other value becomes an empty list first.
  void append(Tree item);

  std::span<const Field> fields() const noexcept;
  std::span<Field> fields() noexcept;
  /// Returns the value of a field; null if there is none. Takes O(n).
  const Tree* find(std::string_view name) const noexcept;
  Tree* find(std::string_view name) noexcept;
  /// Returns the value of a field, which is added as null if it is missing. Any other value becomes
  /// an empty map first. The reference is valid until the next field is added.
  Tree& operator[](std::string_view name);

 private:
  friend class TreeAccess;
  using Fields = std::vector<Field>;

  std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, double, std::string, Bytes,
               TensorView, List, Fields>
      value_;
  /// Tags of Python's values, outermost first. That of a defaultdict is followed by a space and the
  /// JSON of its factory.
  std::vector<std::string> tags_;
};

/// A field of a map.
struct Tree::Field {
  std::string name;
  Tree value;
};

template <std::same_as<bool> T>
Tree::Tree(T value) noexcept : value_(value) {}
template <std::integral T>
  requires(!std::same_as<T, bool>)
Tree::Tree(T value) noexcept {
  if constexpr (std::is_signed_v<T>)
    value_ = static_cast<std::int64_t>(value);
  else
    value_ = static_cast<std::uint64_t>(value);
}
template <std::floating_point T>
Tree::Tree(T value) noexcept : value_(static_cast<double>(value)) {}

/// Returns the JSON of a tree, with the tags of docs/formats/checkpoint.md. A tensor is written as
/// its TensorView::name. `invalid_argument`, with the place, for a text that is not UTF-8, or a
/// tree that nests deeper than 60.
STOKER_API Result<std::string> format_tree(const Tree& tree);

/// Parses such JSON, or any other. `corrupt` for damaged text, or a tag without its content;
/// `unsupported` for a tag that no version up to this one writes.
STOKER_API Result<Tree> parse_tree(std::string_view json);

}  // namespace stoker
