#include "cli/checkpoint/state_summary.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/line_text.h"
#include "cli/work_progress.h"
#include "formats/json/json_text.h"
#include "formats/json/strict_json.h"

namespace stoker::cli {
namespace {

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t others = 0;
};

/// Returns the name of the tag if the node is tagged (docs/formats/checkpoint.md), otherwise an
/// empty string.
std::string_view tag_of(const Json& node) {
  if (!node.is_object() || node.size() != 1) return {};
  const std::string& key = node.sorted_items().begin()->first;
  return key.starts_with('!') ? std::string_view(key) : std::string_view();
}

/// Returns the contents of a tagged node.
const Json& inside(const Json& tagged) {
  return tagged.sorted_items().begin()->second;
}

/// Returns the name of the tensor that a node represents; null if it is not a tensor.
const Json* tensor_of(const Json& node) {
  const std::string_view tag = tag_of(node);
  if (tag == "!scalar") return tensor_of(inside(node));
  if (tag == "!elements" && inside(node).is_array() && inside(node).size() == 2)
    return tensor_of(inside(node)[0]);
  if (tag != "!tensor" && tag != "!torch" && tag != "!array") return nullptr;
  const Json& body = inside(node);  // a name, or a name and NumPy's type
  return body.is_array() && !body.empty() ? &body[0] : &body;
}

/// Whether the node is a container, and not a value that is written as several numbers.
bool has_parts(std::string_view tag, const Json& node) {
  if (tag == "!complex" || tag == "!torch_size") return false;
  return tag.empty() ? node.is_structured() : inside(node).is_structured();
}

/// Returns the contents of a tagged node, without the factory of a defaultdict.
const Json& body_of(std::string_view tag, const Json& node) {
  const Json& body = inside(node);
  return tag == "!default_dict" && body.is_array() && body.size() == 2 ? body[1] : body;
}

/// Returns the description of a container by its tag: "dict of 2", "ordered dict of 2".
std::string kind_of(std::string_view tag, const Json& node) {
  if (tag.empty()) return fmt::format("{} of {}", node.is_object() ? "dict" : "list", node.size());
  const Json* body = &body_of(tag, node);  // dicts of other kinds are a tag around a dict
  if (tag_of(*body) == "!dict") body = &inside(*body);
  std::string name(tag.substr(1));
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{} of {}", name, body->size());
}

/// Recursion is safe: a manifest whose trees are deeper than kStateDepthMax is rejected.
void count(const Json& node, Counts& counts) {
  const std::string_view tag = tag_of(node);
  if (tensor_of(node) != nullptr) {
    ++counts.tensors;
  } else if (tag == "!dict" && inside(node).is_array()) {
    for (const Json& pair : inside(node).elements()) {
      if (pair.is_array() && pair.size() == 2) count(pair[1], counts);
    }
  } else if (!tag.empty() && has_parts(tag, node)) {
    count(body_of(tag, node), counts);
  } else if (has_parts(tag, node)) {
    for (const Json& item : node.elements()) count(item, counts);
    for (const auto& [name, item] : node.sorted_items()) count(item, counts);
  } else {
    ++counts.others;
  }
}

std::string describe(const Json& node) {
  const std::string_view tag = tag_of(node);
  if (const Json* const name = tensor_of(node); name != nullptr && name->is_string())
    return "tensor " + printable(name->get_string());
  if (tag == "!bytes") return "bytes";
  if (!has_parts(tag, node)) return printable(to_line(tag.empty() ? node : inside(node)));
  Counts counts;
  count(node, counts);
  return fmt::format("{}: {}, {}", kind_of(tag, node), counted(counts.tensors, "tensor"),
                     counted(counts.others, "other value"));
}

}  // namespace

std::vector<StateLine> summarize_state(std::string_view tree_json) {
  const Result<Json> tree = parse_strict_json(tree_json, "state");
  if (!tree.ok()) return {{.path = {}, .what = "not readable"}};
  if (!tree->is_object() || !tag_of(*tree).empty()) return {{.path = {}, .what = describe(*tree)}};
  std::vector<StateLine> lines;
  for (const auto& [key, text] : json_member_texts(tree_json))
    lines.push_back({.path = printable(key), .what = describe(*tree->find(key))});
  return lines;
}

}  // namespace stoker::cli
