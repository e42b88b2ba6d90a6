#include "stoker/tree.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "api/tree_access.h"

namespace stoker {

static_assert(static_cast<std::size_t>(Tree::Kind::map) == 8);

Tree::Tree() noexcept = default;
Tree::Tree(std::nullptr_t) noexcept {}
Tree::Tree(const char* text) : value_(std::string(text)) {}
Tree::Tree(std::string_view text) : value_(std::string(text)) {}
Tree::Tree(std::string text) : value_(std::move(text)) {}
Tree::Tree(Bytes bytes) : value_(std::move(bytes)) {}
Tree::Tree(TensorView tensor) : value_(std::move(tensor)) {}
Tree::Tree(std::initializer_list<Field> fields) : value_(Fields()) {
  for (const Field& field : fields) (*this)[field.name] = field.value;
}
Tree::Tree(const Tree& other) = default;
Tree::Tree(Tree&& other) noexcept = default;
Tree& Tree::operator=(const Tree& other) = default;
Tree& Tree::operator=(Tree&& other) noexcept = default;
Tree::~Tree() = default;

Tree Tree::list(List items) {
  Tree made;
  made.value_ = std::move(items);
  return made;
}

Tree Tree::map() {
  Tree made;
  made.value_ = Fields();
  return made;
}

Tree::Kind Tree::kind() const noexcept {
  switch (value_.index()) {
    case 0: return Kind::null;
    case 1: return Kind::boolean;
    case 2:
    case 3: return Kind::integer;
    case 4: return Kind::real;
    case 5: return Kind::text;
    case 6: return Kind::bytes;
    case 7: return Kind::tensor;
    case 8: return Kind::list;
    default: return Kind::map;
  }
}

std::string_view Tree::tag() const noexcept {
  if (tags_.empty()) return {};
  const std::string_view tag = tags_.front();
  return tag.substr(0, tag.find(' '));
}

std::optional<bool> Tree::boolean() const noexcept {
  const bool* const value = std::get_if<bool>(&value_);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::optional<std::int64_t> Tree::int64() const noexcept {
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return *value;
  const auto* const value = std::get_if<std::uint64_t>(&value_);
  if (value == nullptr || !std::in_range<std::int64_t>(*value)) return std::nullopt;
  return static_cast<std::int64_t>(*value);
}

std::optional<std::uint64_t> Tree::uint64() const noexcept {
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return *value;
  const auto* const value = std::get_if<std::int64_t>(&value_);
  if (value == nullptr || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<double> Tree::real() const noexcept {
  if (const auto* value = std::get_if<double>(&value_)) return *value;
  if (const auto* value = std::get_if<std::int64_t>(&value_)) return static_cast<double>(*value);
  if (const auto* value = std::get_if<std::uint64_t>(&value_)) return static_cast<double>(*value);
  return std::nullopt;
}

const std::string* Tree::text() const noexcept {
  return std::get_if<std::string>(&value_);
}

const Tree::Bytes* Tree::bytes() const noexcept {
  return std::get_if<Bytes>(&value_);
}

const TensorView* Tree::tensor() const noexcept {
  return std::get_if<TensorView>(&value_);
}

TensorView* Tree::tensor() noexcept {
  return std::get_if<TensorView>(&value_);
}

std::size_t Tree::size() const noexcept {
  return kind() == Kind::list ? items().size() : fields().size();
}

std::span<const Tree> Tree::items() const noexcept {
  const auto* const items = std::get_if<List>(&value_);
  return items == nullptr ? std::span<const Tree>() : std::span<const Tree>(*items);
}

std::span<Tree> Tree::items() noexcept {
  auto* const items = std::get_if<List>(&value_);
  return items == nullptr ? std::span<Tree>() : std::span<Tree>(*items);
}

void Tree::append(Tree item) {
  if (kind() != Kind::list) *this = list({});
  std::get<List>(value_).push_back(std::move(item));
}

std::span<const Tree::Field> Tree::fields() const noexcept {
  const auto* const fields = std::get_if<Fields>(&value_);
  return fields == nullptr ? std::span<const Field>() : std::span<const Field>(*fields);
}

std::span<Tree::Field> Tree::fields() noexcept {
  auto* const fields = std::get_if<Fields>(&value_);
  return fields == nullptr ? std::span<Field>() : std::span<Field>(*fields);
}

const Tree* Tree::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(fields(), name, &Field::name);
  return found == fields().end() ? nullptr : &found->value;
}

Tree* Tree::find(std::string_view name) noexcept {
  const auto found = std::ranges::find(fields(), name, &Field::name);
  return found == fields().end() ? nullptr : &found->value;
}

Tree& Tree::operator[](std::string_view name) {
  if (Tree* const found = find(name)) return *found;
  if (kind() != Kind::map) *this = map();
  return std::get<Fields>(value_).emplace_back(Field{std::string(name), {}}).value;
}

}  // namespace stoker
