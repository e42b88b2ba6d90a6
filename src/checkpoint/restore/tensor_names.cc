#include "checkpoint/restore/tensor_names.h"

#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <set>
#include <string_view>
#include <utility>

#include "checkpoint/manifest/names.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

/// Returns null for a text that is not JSON. The limits were checked when the manifest was parsed.
Json parse_tree(const std::string& text) {
  Result<Json> tree = parse_strict_json(text, "tree", {.text_bytes_max = text.size()});
  return tree.ok() ? *std::move(tree) : Json();
}

/// Returns a key as Python formats one that is not a string.
std::string key_text(const Json& key) {
  if (key.is_string()) return key.get_string();
  if (key.is_null()) return "None";
  if (key.is_boolean()) return key.get_bool() ? "True" : "False";
  const Json* const integer = key.size() == 1 ? key.find("!int") : nullptr;
  if (integer != nullptr && integer->is_string()) return integer->get_string();
  return key.dump({.is_sorted = true});
}

/// Whether `stored` is `name`, or `name` with a number appended because it was taken.
bool is_own_name(std::string_view stored, std::string_view name) {
  if (!stored.starts_with(name)) return false;
  const std::string_view rest = stored.substr(name.size());
  return rest.empty() || (rest.starts_with('~') && rest.size() > 1 &&
                          rest.find_first_not_of("0123456789", 1) == std::string_view::npos);
}

/// Walks through state trees (docs/formats/checkpoint.md). Recursive: parsing the manifest has
/// limited their depth.
class References {
 public:
  explicit References(const CheckpointReader& reader) : reader_(reader) {
    for (const TensorInfo& tensor : reader.tensors()) {
      named.push_back({.name = tensor.name, .tensor = &tensor});
      taken_.insert(tensor.name);
    }
  }

  /// Visits the tree of a rank, and everything below it.
  void visit_tree(const Json& node, const std::string& name, std::uint32_t rank) {
    rank_ = rank;
    visit(node, name);
  }

  std::vector<NamedTensor> named;

 private:
  void visit(const Json& node, const std::string& name) {
    if (node.is_array()) {
      for (std::size_t i = 0; i < node.size(); ++i) visit(node[i], fmt::format("{}.{}", name, i));
      return;
    }
    const Json::Members& members = node.sorted_items();
    if (members.size() == 1 && members.begin()->first.starts_with('!')) {
      visit_tag(members.begin()->first, members.begin()->second, name);
    } else {
      for (const auto& [key, item] : members) visit(item, fmt::format("{}.{}", name, key));
    }
  }

  // A "!slice" is not visited: it has the same name on all ranks and no aliases.
  void visit_tag(const std::string& tag, const Json& body, const std::string& name) {
    if (tag == "!tensor" || tag == "!torch" || tag == "!array") {
      const Json& stored = body.is_array() && !body.empty() ? body[0] : body;
      if (stored.is_string()) add(stored.get_string(), name);
    } else if (tag == "!scalar" || tag == "!tuple" || tag == "!ordered_dict" || tag == "!counter" ||
               tag == "!namespace") {
      visit(body, name);
    } else if (tag == "!elements" && body.is_array() && body.size() == 2) {
      visit(body[0], name);
    } else if (tag == "!default_dict" && body.is_array() && body.size() == 2) {
      visit(body[1], name);
    } else if (tag == "!dict" && body.is_array()) {
      for (const Json& pair : body.elements())
        if (pair.is_array() && pair.size() == 2)
          visit(pair[1], fmt::format("{}.{}", name, key_text(pair[0])));
    }
  }

  void add(const std::string& reference, std::string name) {
    const TensorInfo* const tensor = find_in_tree(reader_, rank_, reference);
    if (tensor == nullptr) return;
    const std::string prefix = rank_tensor_name(rank_, "");
    if (reader_.manifest().world_size > 1 && tensor->name.starts_with(prefix)) name = prefix + name;
    if (is_own_name(tensor->name, name)) return;
    if (!aliases_.emplace(name, tensor).second) return;  // the same on several ranks
    std::string free_name = name;
    std::uint64_t& number = numbers_[name];
    while (!taken_.insert(free_name).second) free_name = fmt::format("{}~{}", name, ++number + 1);
    named.push_back({.name = std::move(free_name), .tensor = tensor});
  }

  const CheckpointReader& reader_;
  std::uint32_t rank_ = 0;
  std::set<std::string> taken_;
  std::set<std::pair<std::string, const TensorInfo*>> aliases_;
  std::map<std::string, std::uint64_t> numbers_;  // last number appended to a name that was taken
};

}  // namespace

const TensorInfo* find_in_tree(const CheckpointReader& reader, std::uint32_t rank,
                               std::string_view name) {
  const TensorInfo* own = nullptr;
  if (reader.manifest().world_size > 1) own = reader.find(rank_tensor_name(rank, name));
  return own != nullptr ? own : reader.find(name);
}

std::vector<NamedTensor> name_tensors(const CheckpointReader& reader) {
  References references(reader);
  const CheckpointManifest& manifest = reader.manifest();
  for (std::uint32_t rank = 0; rank < manifest.state_json.size(); ++rank) {
    const Json state = parse_tree(manifest.state_json[rank]);
    if (!state.is_object()) continue;
    for (const auto& [tree, node] : state.sorted_items()) references.visit_tree(node, tree, rank);
    if (rank == 0) references.visit_tree(parse_tree(manifest.cursor_json), "loader", rank);
  }
  return std::move(references.named);
}

std::vector<NamedTensor> name_tensors(const CheckpointReader& reader,
                                      std::optional<std::uint32_t> rank) {
  std::vector<NamedTensor> all = name_tensors(reader);
  if (!rank || reader.manifest().world_size == 1) return all;
  const std::string prefix = rank_tensor_name(*rank, "");
  std::vector<NamedTensor> named;
  std::set<std::string> own;
  for (const NamedTensor& one : all) {
    if (!one.name.starts_with(prefix)) continue;
    named.push_back({.name = one.name.substr(prefix.size()), .tensor = one.tensor});
    own.insert(named.back().name);
  }
  for (NamedTensor& one : all)
    if (rank_prefix_of(one.name).empty() && !own.contains(one.name))
      named.push_back(std::move(one));
  return named;
}

std::vector<NamedTensor> choose_tensors(std::span<const NamedTensor> named,
                                        std::span<const std::string> only) {
  static const std::string kAll;
  if (only.empty()) only = std::span(&kAll, 1);
  std::set<std::string_view> names;
  std::vector<NamedTensor> chosen;
  for (const std::string& prefix : only) {
    std::set<const TensorInfo*> found;
    for (const NamedTensor& one : named) {
      if (!one.name.starts_with(prefix)) continue;
      const bool is_new = found.insert(one.tensor).second;
      if (is_new && names.insert(one.name).second) chosen.push_back(one);
    }
  }
  return chosen;
}

}  // namespace stoker
