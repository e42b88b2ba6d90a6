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

/// Where a value is. Refers to the places above it, and is formatted for messages only: a tree may
/// have a reference for each of a hundred thousand tensors.
struct Place {
  enum class Kind : std::uint8_t { tree, element, item, tag };

  const Place* above = nullptr;
  Kind kind = Kind::tree;
  std::string_view name = {};  ///< Key or tag.
  std::size_t index = 0;
  const JsonView* tree = nullptr;

  std::string path() const {
    switch (kind) {
      case Kind::element: return fmt::format("{}[{}]", above->path(), index);
      case Kind::item: return fmt::format("{}[{}]", above->path(), quote_for_message(name));
      case Kind::tag: return fmt::format("{}.{}", above->path(), name);
      default: return tree->path();
    }
  }
  Status corrupt(std::string_view message) const {
    return {Code::corrupt, fmt::format("{}: {}", path(), message)};
  }
};

class References {
 public:
  References(std::span<const CheckpointTensor> tensors, std::uint32_t world_size) {
    stored_.reserve(tensors.size());
    for (const CheckpointTensor& tensor : tensors) {
      Stored& stored = stored_[tensor.name];
      stored.type = tensor.type;
      stored.shape = &tensor.global_shape;
      stored.saved_bytes += tensor.end_bytes - tensor.begin_bytes;
      has_own_ = has_own_ || (world_size > 1 && tensor.name.starts_with("rank-"));
    }
  }

  /// Whether a name may refer to another tensor in the tree of another rank.
  bool has_own() const noexcept { return has_own_; }

  /// Checks all references in a tree.
  Status check(const JsonView& tree, std::uint32_t rank) const {
    return check(tree.value(), {.tree = &tree}, rank);
  }

 private:
  struct Rules {
    std::uint32_t rank = 0;  ///< Whose tree it is.
    bool may_be_missing = false;
    bool is_scalar = false;
  };

  /// Recursive: the parser has limited the depth.
  Status check(const Json& value, const Place& place, std::uint32_t rank) const {
    if (value.is_array()) {
      for (std::size_t i = 0; i < value.size(); ++i)
        if (value[i].is_structured()) STOKER_TRY(check(value[i], element_of(place, i), rank));
      return {};
    }
    if (!value.is_object()) return {};
    if (value.size() == 1) {
      const auto& [tag, body] = *value.sorted_items().begin();
      const Place inside{.above = &place, .kind = Place::Kind::tag, .name = tag};
      if (tag == "!slice") return check_leaf(body, inside, {.rank = rank, .may_be_missing = true});
      if (tag == "!scalar") return check_leaf(body, inside, {.rank = rank, .is_scalar = true});
      if (tag == "!tensor" || tag == "!torch" || tag == "!array")
        return check_leaf(value, place, {.rank = rank});
    }
    for (const auto& [key, item] : value.sorted_items()) {
      if (!item.is_structured()) continue;
      const Place inside{.above = &place, .kind = Place::Kind::item, .name = key};
      STOKER_TRY(check(item, inside, rank));
    }
    return {};
  }

  static Place element_of(const Place& above, std::size_t index) {
    return {.above = &above, .kind = Place::Kind::element, .index = index};
  }

  Status check_leaf(const Json& value, const Place& place, const Rules& rules) const {
    if (!value.is_object() || value.size() != 1)
      return place.corrupt("not a reference to a tensor");
    const auto& [tag, body] = *value.sorted_items().begin();
    if (tag != "!tensor" && tag != "!torch" && tag != "!array")
      return place.corrupt("not a reference to a tensor");
    const Place inside{.above = &place, .kind = Place::Kind::tag, .name = tag};
    if (body.is_string() && tag != "!array")
      return check_stored(body.get_string(), inside, std::nullopt, rules);
    const bool is_pair =
        body.is_array() && body.size() == 2 && body[0].is_string() && body[1].is_string();
    if (!is_pair || tag == "!tensor")
      return inside.corrupt("not a tensor's name, or a name and a type");
    const std::string& type = body[1].get_string();
    const std::optional<StoredElement> element = parse_element(type);
    if (!element || (tag == "!torch" && type != "<c16"))
      return inside.corrupt("no elements of type " + quote_for_message(type) +
                            " are stored this way");
    return check_stored(body[0].get_string(), inside, element, rules);
  }

  Status check_stored(const std::string& name, const Place& place,
                      const std::optional<StoredElement>& element, const Rules& rules) const {
    auto found = has_own_ ? stored_.find(rank_tensor_name(rules.rank, name)) : stored_.end();
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

  bool has_own_ = false;  // whether a tensor may be that of one of several ranks
  std::unordered_map<std::string_view, Stored> stored_;
};

}  // namespace

Status check_references(const JsonView& root, std::span<const Json* const> trees,
                        std::span<const CheckpointTensor> tensors, std::uint32_t world_size) {
  const References references(tensors, world_size);
  STOKER_ASSIGN(const JsonView state, root.at("state"));
  for (std::uint32_t rank = 0; rank < trees.size(); ++rank) {
    const bool is_checked = rank > 0 && trees[rank] == trees[rank - 1] && !references.has_own();
    if (is_checked) continue;
    const JsonView tree(*trees[rank], fmt::format("{}[{}]", state.path(), rank));
    STOKER_TRY(references.check(tree, rank));
  }
  STOKER_ASSIGN(const JsonView cursor, root.at_or_null("cursor"));
  return references.check(cursor, 0);
}

}  // namespace stoker::internal
