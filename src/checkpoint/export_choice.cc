#include "checkpoint/export_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string_view>

#include "checkpoint/names.h"
#include "formats/strict_json.h"

namespace stoker {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::array<std::string_view, 2> kWrappers = {"module.", "_orig_mod."};
constexpr std::size_t kNamesTold = 8;

using Prefixes = std::set<std::string, std::less<>>;

/// The part of a name up to the first point after `begin`, point included; or all of it.
std::string_view up_to_point(std::string_view name, std::size_t begin) {
  const std::size_t point = name.find('.', begin);
  return point == std::string_view::npos ? name : name.substr(0, point + 1);
}

bool some_begin_with(std::span<const TensorInfo> tensors, std::string_view prefix) {
  return std::ranges::any_of(
      tensors, [&](const TensorInfo& tensor) { return tensor.name.starts_with(prefix); });
}

/// "model., optimizer. and 3 more": how names go on after `above`.
std::string beginnings(std::span<const TensorInfo> tensors, std::string_view above) {
  std::set<std::string_view> found;
  for (const TensorInfo& tensor : tensors)
    if (tensor.name.starts_with(above)) found.insert(up_to_point(tensor.name, above.size()));
  std::string text;
  std::size_t told = 0;
  for (const std::string_view name : found) {
    if (told == kNamesTold) break;
    text += (told++ == 0 ? "" : ", ") + quote_for_message(name);
  }
  if (found.size() > told) text += fmt::format(" and {} more", found.size() - told);
  return text;
}

/// The longest beginning of `prefix` that ends with a point and that some names have.
std::string_view known_part(std::span<const TensorInfo> tensors, std::string_view prefix) {
  while (!prefix.empty() && !some_begin_with(tensors, prefix)) {
    prefix.remove_suffix(1);
    const std::size_t point = prefix.rfind('.');
    prefix = point == std::string_view::npos ? std::string_view() : prefix.substr(0, point + 1);
  }
  return prefix;
}

/// "rank-00003." before the names of a rank's own tensors; empty of what belongs to all.
std::string_view rank_prefix(std::string_view name, std::uint64_t world_size) {
  const std::string_view begin = up_to_point(name, 0);
  return world_size > 1 && begin.starts_with("rank-") ? begin : std::string_view();
}

/// What wrappers have put before every name.
std::string common_wrappers(std::span<const std::string_view> names) {
  std::string common;
  for (bool is_longer = true; is_longer;) {
    is_longer = false;
    for (const std::string_view wrapper : kWrappers) {
      const std::string longer = common + std::string(wrapper);
      if (!std::ranges::all_of(names,
                               [&](std::string_view name) { return name.starts_with(longer); }))
        continue;
      common = longer;
      is_longer = true;
    }
  }
  return common;
}

/// The first tensor that a tree refers to and whose name begins with none of `prefixes`: it shares
/// memory with one of another tree, and is stored as that.
std::optional<std::string> find_elsewhere(const nlohmann::json& node, const Prefixes& prefixes) {
  if (!node.is_structured()) return std::nullopt;
  if (node.is_object() && node.size() == 1) {
    const std::string tag = node.begin().key();
    const nlohmann::json& body = node.front();
    if (tag == "!tensor" || tag == "!torch" || tag == "!array") {
      const nlohmann::json& name = body.is_array() && !body.empty() ? body[0] : body;
      if (!name.is_string()) return std::nullopt;
      const auto& text = name.get_ref<const std::string&>();
      const bool is_own = std::ranges::any_of(
          prefixes, [&](const std::string& prefix) { return text.starts_with(prefix); });
      return is_own ? std::nullopt : std::optional(text);
    }
  }
  for (const nlohmann::json& item : node)
    if (std::optional<std::string> found = find_elsewhere(item, prefixes)) return found;
  return std::nullopt;
}

Status check_own(const CheckpointReader& reader, const Prefixes& prefixes) {
  if (reader.manifest().state_json.empty()) return {};
  const nlohmann::json state =
      nlohmann::json::parse(reader.manifest().state_json.front(), nullptr, false);
  if (!state.is_object() || !state.contains("model")) return {};
  const std::optional<std::string> other = find_elsewhere(state["model"], prefixes);
  if (!other) return {};
  return Status(Code::invalid_argument,
                fmt::format("the tree `model` shares memory with {}, and is stored as that; choose "
                            "with --only and --strip",
                            quote_for_message(*other)));
}

Status no_model(std::span<const TensorInfo> tensors) {
  for (const TensorInfo& tensor : tensors) {
    const std::size_t inner = tensor.name.find(".model.");
    if (inner == std::string::npos) continue;
    const std::string prefix = quote_for_message(tensor.name.substr(0, inner + 1 + kModel.size()));
    return Status(Code::invalid_argument,
                  fmt::format("there is no tree `model`, but one inside another; choose it with "
                              "--only {} --strip {}",
                              prefix, prefix));
  }
  return Status(Code::invalid_argument,
                fmt::format("there is no tree `model`: the names of tensors begin with {}; choose "
                            "with --only and --strip",
                            beginnings(tensors, "")));
}

/// That all ranks have saved the same under `name`, which `first` is rank 0's copy of.
Status check_copies(const CheckpointReader& reader, const TensorInfo& first,
                    std::string_view name) {
  STOKER_ASSIGN(const Digest128 digest, reader.digest_of(first));
  for (std::uint32_t rank = 1; rank < reader.manifest().world_size; ++rank) {
    const TensorInfo* const other = reader.find(fmt::format("rank-{:05}.{}", rank, name));
    bool is_same = other != nullptr && other->type == first.type && other->shape == first.shape;
    if (is_same) {
      STOKER_ASSIGN(const Digest128 its, reader.digest_of(*other));
      is_same = its == digest;
    }
    if (!is_same)
      return Status(Code::invalid_argument,
                    fmt::format("{}: rank {} has saved another one than rank 0; choose with --only "
                                "rank-00000.model. --strip rank-00000.model.",
                                quote_for_message(name), rank));
  }
  return {};
}

}  // namespace

Status check_only(std::span<const TensorInfo> tensors, std::span<const std::string> only) {
  for (const std::string& prefix : only) {
    if (some_begin_with(tensors, prefix)) continue;
    return Status(
        Code::invalid_argument,
        fmt::format("--only {}: no tensor's name begins so; there are {}",
                    quote_for_message(prefix), beginnings(tensors, known_part(tensors, prefix))));
  }
  return {};
}

Result<ModelChoice> choose_model(const CheckpointReader& reader) {
  const std::uint64_t world_size = reader.manifest().world_size;
  Prefixes prefixes;
  std::vector<std::string_view> names;
  std::map<std::string, LeftOutTree, std::less<>> left_out;
  for (const TensorInfo& tensor : reader.tensors()) {
    const std::string_view rank = rank_prefix(tensor.name, world_size);
    const std::string_view name = std::string_view(tensor.name).substr(rank.size());
    if (!name.starts_with(kModel)) {
      std::string_view tree = up_to_point(name, 0);
      if (tree.ends_with('.')) tree.remove_suffix(1);
      LeftOutTree& counts = left_out[std::string(tree)];
      ++counts.tensor_count;
      counts.size_bytes += tensor.size_bytes;
      continue;
    }
    if (!rank.empty() && rank != "rank-00000.") {
      // A copy, unless rank 0 has none of it.
      if (reader.find(fmt::format("rank-00000.{}", name)) != nullptr) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{}: not every rank has saved one; choose with --only and --strip",
                                quote_for_message(name)));
    }
    if (!rank.empty()) STOKER_TRY(check_copies(reader, tensor, name));
    prefixes.insert(std::string(rank) + std::string(kModel));
    names.push_back(name.substr(kModel.size()));
  }
  STOKER_TRY(check_own(reader, prefixes));
  if (names.empty()) return no_model(reader.tensors());
  ModelChoice choice{.only = {prefixes.begin(), prefixes.end()}, .strip = {}, .left_out = {}};
  const std::string wrappers = common_wrappers(names);
  for (const std::string& prefix : prefixes) choice.strip.push_back(prefix + wrappers);
  for (auto& [tree, counts] : left_out) {
    counts.name = tree;
    choice.left_out.push_back(counts);
  }
  return choice;
}

}  // namespace stoker
