#include "formats/litdata/litdata_spec.h"

#include <fmt/format.h>

#include <set>

#include "formats/json/strict_json.h"

namespace stoker {
namespace {

/// Enough for any real index; the JSON parser limits the depth.
constexpr std::size_t kLeavesMax = 100'000;
/// A limit because each name contains those of its parents.
constexpr std::size_t kNameBytesMax = 4096;

class Walker {
 public:
  /// `prefix` is the name of `node`, empty at the root.
  Status walk(const JsonView& node, const std::string& prefix) {
    STOKER_ASSIGN(const JsonView type, node.at("type"));
    STOKER_ASSIGN(const JsonView children, node.at("children_spec"));
    STOKER_ASSIGN(const std::size_t count, children.array_size());
    if (type.is_null()) {
      if (count != 0) return children.corrupt("a leaf with children");
      return add_leaf(node, prefix.empty() ? std::string(kLitdataItem) : prefix);
    }
    STOKER_ASSIGN(const std::vector<std::string> keys, keys_of(node, type, count));
    for (std::size_t i = 0; i < count; ++i) {
      std::string name = prefix.empty() ? keys[i] : fmt::format("{}.{}", prefix, keys[i]);
      if (name.size() > kNameBytesMax) return children.corrupt("a name without end");
      if (name.empty()) name = "\"\"";
      STOKER_TRY(walk(children.element(i), name));
    }
    return {};
  }

  std::vector<std::string> take() { return std::move(names_); }

 private:
  Status add_leaf(const JsonView& node, std::string name) {
    if (names_.size() == kLeavesMax) {
      return node.corrupt(fmt::format("more than {} leaves", kLeavesMax));
    }
    if (!seen_.insert(name).second) {
      return {Code::unsupported,
              fmt::format("{}: two leaves would be called {}; rename a key of the samples",
                          node.path(), quote_for_message(name))};
    }
    names_.push_back(std::move(name));
    return {};
  }

  /// Returns the names of a node's children.
  Result<std::vector<std::string>> keys_of(const JsonView& node, const JsonView& type,
                                           std::size_t count) {
    STOKER_ASSIGN(const std::string name, type.text());
    std::vector<std::string> keys;
    if (name == "builtins.list" || name == "builtins.tuple") {
      for (std::size_t i = 0; i < count; ++i) keys.push_back(fmt::to_string(i));
      return keys;
    }
    if (name != "builtins.dict" && name != "collections.OrderedDict") {
      return Status(Code::unsupported,
                    fmt::format("{}: {}: samples are made of dict, list and tuple", type.path(),
                                quote_for_message(name)));
    }
    STOKER_ASSIGN(const JsonView context, node.at("context"));
    STOKER_ASSIGN(const std::string text, context.text());
    STOKER_ASSIGN(const Json document, parse_strict_json(text, context.path()));
    const JsonView list(document, context.path());
    STOKER_ASSIGN(const std::size_t key_count, list.array_size());
    if (key_count != count) {
      return context.corrupt(fmt::format("{} keys for {} children", key_count, count));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const JsonView key = list.element(i);
      if (key.value().is_number_integer()) {
        keys.push_back(key.value().dump());
      } else {
        STOKER_ASSIGN(std::string key_text, key.text());
        keys.push_back(std::move(key_text));
      }
    }
    return keys;
  }

  std::vector<std::string> names_;
  std::set<std::string> seen_;
};

}  // namespace

Result<std::vector<std::string>> parse_litdata_spec(std::string_view data_spec) {
  STOKER_ASSIGN(const Json document, parse_strict_json(data_spec, "data_spec"));
  const JsonView root(document, "data_spec");
  STOKER_ASSIGN(const std::size_t size, root.array_size());
  if (size != 2) return root.corrupt("not a pair of protocol and tree");
  STOKER_ASSIGN(const std::uint64_t protocol, root.element(0).u64());
  if (protocol != 1) {
    return Status(Code::unsupported,
                  fmt::format("data_spec: protocol {}, only 1 is read", protocol));
  }
  Walker walker;
  STOKER_TRY(walker.walk(root.element(1), ""));
  return walker.take();
}

}  // namespace stoker
