#include "cli/state_summary.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/sample_text.h"
#include "cli/work_progress.h"

namespace stoker::cli {
namespace {

using nlohmann::ordered_json;

struct Counts {
  std::uint64_t tensors = 0;
  std::uint64_t others = 0;
};

/// The name of the tag if the node is a tagged one (docs/formats/checkpoint.md), else empty.
std::string_view tag_of(const ordered_json& node) {
  if (!node.is_object() || node.size() != 1) return {};
  const ordered_json::const_iterator only = node.begin();  // g++ 13 takes its key for a temporary's
  const std::string& key = only.key();
  return key.starts_with('!') ? std::string_view(key) : std::string_view();
}

/// The name of the tensor that a node stands for; null if it is none.
const ordered_json* tensor_of(const ordered_json& node) {
  const std::string_view tag = tag_of(node);
  if (tag == "!scalar") return tensor_of(node.front());
  if (tag != "!tensor" && tag != "!torch" && tag != "!array") return nullptr;
  const ordered_json& body = node.front();  // a name, or a name and NumPy's type
  return body.is_array() && !body.empty() ? &body.front() : &body;
}

/// Trees nest at most kStateDepthMax deep, or the manifest would have been refused.
void count(const ordered_json& node, Counts& counts) {
  const std::string_view tag = tag_of(node);
  if (tensor_of(node) != nullptr) {
    ++counts.tensors;
  } else if (tag == "!dict" && node.front().is_array()) {
    for (const ordered_json& pair : node.front()) {
      if (pair.is_array() && pair.size() == 2) count(pair[1], counts);
    }
  } else if (tag == "!tuple") {
    for (const ordered_json& item : node.front()) count(item, counts);
  } else if (tag.empty() && node.is_structured()) {
    for (const ordered_json& item : node) count(item, counts);
  } else {
    ++counts.others;
  }
}

std::string describe(const ordered_json& node) {
  const std::string_view tag = tag_of(node);
  if (const ordered_json* const name = tensor_of(node); name != nullptr && name->is_string())
    return "tensor " + printable(name->get<std::string>());
  if (tag == "!bytes") return "bytes";
  std::string kind;
  if (tag == "!dict" || (tag.empty() && node.is_object()))
    kind = fmt::format("dict of {}", tag.empty() ? node.size() : node.front().size());
  else if (tag == "!tuple")
    kind = fmt::format("tuple of {}", node.front().size());
  else if (node.is_array())
    kind = fmt::format("list of {}", node.size());
  else
    return printable(to_line(tag.empty() ? node : node.front()));
  Counts counts;
  count(node, counts);
  return fmt::format("{}: {}, {}", kind, counted(counts.tensors, "tensor"),
                     counted(counts.others, "other value"));
}

}  // namespace

std::vector<StateLine> summarize_state(std::string_view tree_json) {
  const ordered_json tree = ordered_json::parse(tree_json, nullptr, false);
  if (tree.is_discarded()) return {{.path = {}, .what = "not readable"}};
  if (!tree.is_object() || !tag_of(tree).empty()) return {{.path = {}, .what = describe(tree)}};
  std::vector<StateLine> lines;
  for (const auto& [key, value] : tree.items())
    lines.push_back({.path = printable(key), .what = describe(value)});
  return lines;
}

}  // namespace stoker::cli
