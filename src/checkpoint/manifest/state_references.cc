#include "checkpoint/manifest/state_references.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "checkpoint/manifest/names.h"

namespace stoker::internal {
namespace {

struct Stored {
  TensorType type = TensorType::f32;
  const std::vector<std::uint64_t>* shape = nullptr;  ///< Shape of the whole tensor.
  std::uint64_t saved_bytes = 0;
};

/// How elements of a type that safetensors lacks are stored: as another type, possibly with an
/// extra last dimension.
struct StoredElement {
  TensorType type = TensorType::u8;
  std::optional<std::uint64_t> last_dimension = {};
};

/// Parses NumPy's name of an element type (docs/formats/checkpoint.md): byte order, kind, size, and
/// a unit for times. Returns nothing for a name that no writer uses.
std::optional<StoredElement> parse_element(std::string_view name) {
  if (name == "<c16") return StoredElement{.type = TensorType::f64, .last_dimension = 2};
  constexpr std::string_view kOrders = "<>|=";
  constexpr std::string_view kKinds = "biufcmMSUV";
  if (name.size() < 3 || kOrders.find(name[0]) == std::string_view::npos ||
      kKinds.find(name[1]) == std::string_view::npos)
    return std::nullopt;
  const char kind = name[1];
  const bool is_time = kind == 'm' || kind == 'M';
  std::uint64_t size = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + 2, end, size);
  const bool has_unit = is_time && stop != end && *stop == '[' && name.back() == ']';
  constexpr std::uint64_t kSizeMax = std::uint64_t{1} << 31;
  if (error != std::errc() || (stop != end && !has_unit) || size > kSizeMax) return std::nullopt;
  if (is_time && size != 8) return std::nullopt;
  if (is_time && name[0] == '<') return StoredElement{.type = TensorType::i64};
  constexpr std::uint64_t kUnicodeBytes = 4;
  return StoredElement{.last_dimension = kind == 'U' ? size * kUnicodeBytes : size};
}

class References {
 public:
  References(std::span<const CheckpointTensor> tensors, std::uint32_t world_size)
      : world_size_(world_size) {
    for (const CheckpointTensor& tensor : tensors) {
      Stored& stored = stored_[tensor.name];
      stored.type = tensor.type;
      stored.shape = &tensor.global_shape;
      stored.saved_bytes += tensor.end_bytes - tensor.begin_bytes;
    }
  }

  /// Checks all references below `view`. Recursive: the parser has limited the depth.
  Status check(const JsonView& view, std::uint32_t rank) const {
    const Json& value = view.value();
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i)
        if (value[i].is_structured()) STOKER_TRY(check(view.element(i), rank));
      return {};
    }
    if (!value.is_object()) return {};
    if (value.size() == 1) {
      const std::string tag = tag_of(value);
      if (tag == "!slice") return check_leaf(member(view), {.rank = rank, .may_be_missing = true});
      if (tag == "!scalar") return check_leaf(member(view), {.rank = rank, .is_scalar = true});
      if (tag == "!tensor" || tag == "!torch" || tag == "!array")
        return check_leaf(view, {.rank = rank});
    }
    for (const auto& [key, item] : value.sorted_items()) {
      if (!item.is_structured()) continue;
      STOKER_TRY(
          check(JsonView(item, fmt::format("{}[{}]", view.path(), quote_for_message(key))), rank));
    }
    return {};
  }

 private:
  struct Rules {
    std::uint32_t rank = 0;  ///< Whose tree it is.
    bool may_be_missing = false;
    bool is_scalar = false;
  };

  /// The only key of an object.
  static std::string tag_of(const Json& value) { return value.sorted_items().begin()->first; }
  static JsonView member(const JsonView& view) {
    return {view.value().sorted_items().begin()->second, view.path() + "." + tag_of(view.value())};
  }

  Status check_leaf(const JsonView& view, const Rules& rules) const {
    const Json& value = view.value();
    if (!value.is_object() || value.size() != 1) return view.corrupt("not a reference to a tensor");
    const std::string tag = tag_of(value);
    const JsonView body = member(view);
    if (tag != "!tensor" && tag != "!torch" && tag != "!array")
      return view.corrupt("not a reference to a tensor");
    if (body.is_string() && tag != "!array") return check_stored(body, body, std::nullopt, rules);
    const bool is_pair = body.value().is_array() && body.value().size() == 2 &&
                         body.element(0).is_string() && body.element(1).is_string();
    if (!is_pair || tag == "!tensor")
      return body.corrupt("not a tensor's name, or a name and a type");
    const std::string name = *body.element(1).text();
    const std::optional<StoredElement> element = parse_element(name);
    if (!element || (tag == "!torch" && name != "<c16"))
      return body.corrupt("no elements of type " + quote_for_message(name) +
                          " are stored this way");
    return check_stored(body, body.element(0), element, rules);
  }

  Status check_stored(const JsonView& place, const JsonView& name_view,
                      const std::optional<StoredElement>& element, const Rules& rules) const {
    const std::string name = *name_view.text();
    auto found = world_size_ > 1 ? stored_.find(rank_tensor_name(rules.rank, name)) : stored_.end();
    if (found == stored_.end()) found = stored_.find(name);
    if (found == stored_.end()) {
      if (rules.may_be_missing) return {};
      return place.corrupt("there is no tensor " + quote_for_message(name));
    }
    const Stored& stored = found->second;
    std::size_t dimensions = stored.shape->size();
    if (element) {
      const bool has_last = element->last_dimension.has_value();
      const bool fits =
          stored.type == element->type &&
          (!has_last || (dimensions > 0 && stored.shape->back() == *element->last_dimension));
      if (!fits)
        return place.corrupt("the tensor " + quote_for_message(name) +
                             " has other elements: " + std::string(tensor_type_name(stored.type)));
      dimensions -= has_last ? 1 : 0;
    }
    if (rules.is_scalar && dimensions != 0)
      return place.corrupt("the tensor " + quote_for_message(name) + " is not a scalar");
    if (rules.may_be_missing) return {};  // a slice: the restore chooses the part
    const Result<std::uint64_t> whole = tensor_bytes(stored.type, *stored.shape);
    if (!whole.ok() || *whole != stored.saved_bytes)
      return place.corrupt("the tensor " + quote_for_message(name) + " is not stored whole");
    return {};
  }

  const std::uint32_t world_size_;
  std::unordered_map<std::string_view, Stored> stored_;
};

}  // namespace

Status check_references(const JsonView& root, std::span<const CheckpointTensor> tensors,
                        std::uint32_t world_size) {
  const References references(tensors, world_size);
  STOKER_ASSIGN(const JsonView state, root.at("state"));
  STOKER_ASSIGN(const std::size_t tree_count, state.array_size());
  for (std::uint32_t rank = 0; rank < tree_count; ++rank)
    STOKER_TRY(references.check(state.element(rank), rank));
  STOKER_ASSIGN(const JsonView cursor, root.at_or_null("cursor"));
  return references.check(cursor, 0);
}

}  // namespace stoker::internal
