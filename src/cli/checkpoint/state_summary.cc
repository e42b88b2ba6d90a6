#include "cli/checkpoint/state_summary.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/line_text.h"
#include "cli/work_progress.h"
#include "formats/json/json_text.h"

namespace stoker::cli {
namespace {

using nlohmann::json;

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t others = 0;
};

/// The name of the tag if the node is a tagged one (docs/formats/checkpoint.md), else empty.
std::string_view tag_of(const json& node) {
  if (!node.is_object() || node.size() != 1) return {};
  const json::const_iterator only = node.begin();  // g++ 13 takes its key for a temporary's
  const std::string& key = only.key();
  return key.starts_with('!') ? std::string_view(key) : std::string_view();
}

/// The name of the tensor that a node stands for; null if it is none.
const json* tensor_of(const json& node) {
  const std::string_view tag = tag_of(node);
  if (tag == "!scalar") return tensor_of(node.front());
  if (tag != "!tensor" && tag != "!torch" && tag != "!array") return nullptr;
  const json& body = node.front();  // a name, or a name and NumPy's type
  return body.is_array() && !body.empty() ? &body.front() : &body;
}

/// A container, and no value that is written in several numbers.
bool has_parts(std::string_view tag, const json& node) {
  if (tag == "!complex" || tag == "!torch_size") return false;
  return tag.empty() ? node.is_structured() : node.front().is_structured();
}

/// What a tag is around; that of a defaultdict has its factory, too.
const json& body_of(std::string_view tag, const json& node) {
  const json& body = node.front();
  return tag == "!default_dict" && body.is_array() && body.size() == 2 ? body.back() : body;
}

/// "dict of 2", "ordered dict of 2": what a container is called, by its tag.
std::string kind_of(std::string_view tag, const json& node) {
  if (tag.empty()) return fmt::format("{} of {}", node.is_object() ? "dict" : "list", node.size());
  const json* body = &body_of(tag, node);  // a dict of another kind is a tag around a dict
  if (tag_of(*body) == "!dict") body = &body->front();
  std::string name(tag.substr(1));
  std::ranges::replace(name, '_', ' ');
  return fmt::format("{} of {}", name, body->size());
}

/// Trees nest at most kStateDepthMax deep, or the manifest would have been refused.
void count(const json& node, Counts& counts) {
  const std::string_view tag = tag_of(node);
  if (tensor_of(node) != nullptr) {
    ++counts.tensors;
  } else if (tag == "!dict" && node.front().is_array()) {
    for (const json& pair : node.front()) {
      if (pair.is_array() && pair.size() == 2) count(pair[1], counts);
    }
  } else if (!tag.empty() && has_parts(tag, node)) {
    count(body_of(tag, node), counts);
  } else if (has_parts(tag, node)) {
    for (const json& item : node) count(item, counts);
  } else {
    ++counts.others;
  }
}

std::string describe(const json& node) {
  const std::string_view tag = tag_of(node);
  if (const json* const name = tensor_of(node); name != nullptr && name->is_string())
    return "tensor " + printable(name->get<std::string>());
  if (tag == "!bytes") return "bytes";
  if (!has_parts(tag, node)) return printable(to_line(tag.empty() ? node : node.front()));
  Counts counts;
  count(node, counts);
  return fmt::format("{}: {}, {}", kind_of(tag, node), counted(counts.tensors, "tensor"),
                     counted(counts.others, "other value"));
}

}  // namespace

// Members in their order, which a parsed object of the library keeps only at a cost that grows with
// the square of their number.
std::vector<StateLine> summarize_state(std::string_view tree_json) {
  const json tree = json::parse(tree_json, nullptr, false);
  if (tree.is_discarded()) return {{.path = {}, .what = "not readable"}};
  if (!tree.is_object() || !tag_of(tree).empty()) return {{.path = {}, .what = describe(tree)}};
  std::vector<StateLine> lines;
  for (const auto& [key, text] : json_member_texts(tree_json))
    lines.push_back({.path = printable(key), .what = describe(tree.at(key))});
  return lines;
}

}  // namespace stoker::cli
