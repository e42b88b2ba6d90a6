#include "checkpoint/inspect/export_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "checkpoint/manifest/names.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::array<std::string_view, 2> kWrappers = {"module.", "_orig_mod."};
constexpr std::size_t kNamesTold = 8;

using Prefixes = std::set<std::string, std::less<>>;
using ByName = std::map<std::string_view, const TensorInfo*>;

/// Returns the part of a name up to the first dot after `begin`, inclusive; or all of it.
std::string_view up_to_point(std::string_view name, std::size_t begin) {
  const std::size_t point = name.find('.', begin);
  return point == std::string_view::npos ? name : name.substr(0, point + 1);
}

bool some_begin_with(std::span<const NamedTensor> named, std::string_view prefix) {
  return std::ranges::any_of(named,
                             [&](const NamedTensor& one) { return one.name.starts_with(prefix); });
}

/// Lists the next parts of names that begin with `above`: "model., optimizer. and 3 more".
std::string beginnings(std::span<const NamedTensor> named, std::string_view above) {
  std::set<std::string_view> found;
  for (const NamedTensor& one : named)
    if (one.name.starts_with(above)) found.insert(up_to_point(one.name, above.size()));
  std::string text;
  std::size_t told = 0;
  for (const std::string_view name : found) {
    if (told == kNamesTold) break;
    text += (told++ == 0 ? "" : ", ") + quote_for_message(name);
  }
  if (found.size() > told) text += fmt::format(" and {} more", found.size() - told);
  return text;
}

/// Returns the longest part of `prefix` that ends with a dot and with which some names begin.
std::string_view known_part(std::span<const NamedTensor> named, std::string_view prefix) {
  while (!prefix.empty() && !some_begin_with(named, prefix)) {
    prefix.remove_suffix(1);
    const std::size_t point = prefix.rfind('.');
    prefix = point == std::string_view::npos ? std::string_view() : prefix.substr(0, point + 1);
  }
  return prefix;
}

/// Returns the prefix of a rank's own tensors, "rank-00003."; empty for tensors of all ranks.
std::string_view rank_prefix(std::string_view name, std::uint64_t world_size) {
  return world_size > 1 ? rank_prefix_of(name) : std::string_view();
}

/// Returns the prefixes that wrappers have put before every name.
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

Status no_model(std::span<const NamedTensor> named) {
  for (const NamedTensor& one : named) {
    const std::size_t inner = one.name.find(".model.");
    if (inner == std::string::npos) continue;
    const std::string prefix = quote_for_message(one.name.substr(0, inner + 1 + kModel.size()));
    return Status(
        Code::invalid_argument,
        fmt::format("there is no tree `model`, except inside another tree; choose it with "
                    "--only {} --strip {}",
                    prefix, prefix));
  }
  return Status(Code::invalid_argument,
                fmt::format("there is no tree `model`: the names of tensors begin with {}; choose "
                            "with --only and --strip",
                            beginnings(named, "")));
}

const TensorInfo* find(const ByName& by_name, const std::string& name) {
  const auto found = by_name.find(name);
  return found == by_name.end() ? nullptr : found->second;
}

/// Counts the tensors of each tree but `model` that are not `in_model`.
std::vector<LeftOutTree> list_left_out(const CheckpointReader& reader,
                                       const std::set<const TensorInfo*>& in_model) {
  std::map<std::string_view, LeftOutTree> trees;
  for (const TensorInfo& tensor : reader.tensors()) {
    if (in_model.contains(&tensor)) continue;
    const std::string_view rank = rank_prefix(tensor.name, reader.manifest().world_size);
    std::string_view tree = up_to_point(std::string_view(tensor.name).substr(rank.size()), 0);
    if (tree == kModel) continue;  // of another rank
    if (tree.ends_with('.')) tree.remove_suffix(1);
    LeftOutTree& counts = trees[tree];
    ++counts.tensor_count;
    counts.size_bytes += tensor.size_bytes;
  }
  std::vector<LeftOutTree> left_out;
  for (auto& [tree, counts] : trees) {
    counts.name = tree;
    left_out.push_back(counts);
  }
  return left_out;
}

/// Checks that all ranks have saved the same tensor as `name`. `first` is rank 0's copy.
Status check_copies(const CheckpointReader& reader, const ByName& by_name, const TensorInfo& first,
                    std::string_view name) {
  STOKER_ASSIGN(const Digest128 digest, reader.digest_of(first));
  for (std::uint32_t rank = 1; rank < reader.manifest().world_size; ++rank) {
    const TensorInfo* const other = find(by_name, fmt::format("rank-{:05}.{}", rank, name));
    bool is_same = other != nullptr && other->type == first.type && other->shape == first.shape;
    if (is_same) {
      STOKER_ASSIGN(const Digest128 its, reader.digest_of(*other));
      is_same = its == digest;
    }
    if (!is_same)
      return Status(Code::invalid_argument,
                    fmt::format("{}: ranks {} and 0 have saved different tensors; choose the model "
                                "of one rank: --rank 0",
                                quote_for_message(name), rank));
  }
  return {};
}

}  // namespace

Status check_only(std::span<const NamedTensor> named, std::span<const std::string> only) {
  for (const std::string& prefix : only) {
    if (some_begin_with(named, prefix)) continue;
    std::string advice;
    if (some_begin_with(named, rank_tensor_name(0, prefix)))
      advice = fmt::format(
          ". Each rank has saved its own: choose one with --rank 0{}",
          prefix.starts_with(kModel) ? ", or give --hf for the model that all ranks share" : "");
    return Status(Code::invalid_argument,
                  fmt::format("--only {}: no tensor name begins with that; there are {}{}",
                              quote_for_message(prefix),
                              beginnings(named, known_part(named, prefix)), advice));
  }
  return {};
}

Result<ModelChoice> choose_model(const CheckpointReader& reader,
                                 std::optional<std::uint32_t> chosen_rank) {
  // The names of a chosen rank have no prefix of a rank.
  const std::uint64_t world_size = chosen_rank ? 1 : reader.manifest().world_size;
  const std::vector<NamedTensor> named = name_tensors(reader, chosen_rank);
  ByName by_name;
  for (const NamedTensor& one : named) by_name.emplace(one.name, one.tensor);
  Prefixes prefixes;
  std::vector<std::string_view> names;
  std::set<const TensorInfo*> in_model;
  for (const NamedTensor& one : named) {
    const std::string_view rank = rank_prefix(one.name, world_size);
    const std::string_view name = std::string_view(one.name).substr(rank.size());
    if (!name.starts_with(kModel)) continue;
    in_model.insert(one.tensor);
    if (!rank.empty() && rank != "rank-00000.") {
      // It is a copy, unless rank 0 has no such tensor.
      if (find(by_name, fmt::format("rank-00000.{}", name)) != nullptr) continue;
      return Status(Code::invalid_argument,
                    fmt::format("{}: not every rank has saved it; choose the model of one rank: "
                                "--rank 0",
                                quote_for_message(name)));
    }
    if (!rank.empty()) STOKER_TRY(check_copies(reader, by_name, *one.tensor, name));
    prefixes.insert(std::string(rank) + std::string(kModel));
    names.push_back(name.substr(kModel.size()));
  }
  if (names.empty()) return no_model(named);
  ModelChoice choice{.only = {prefixes.begin(), prefixes.end()}, .strip = {}, .left_out = {}};
  const std::string wrappers = common_wrappers(names);
  for (const std::string& prefix : prefixes) choice.strip.push_back(prefix + wrappers);
  choice.left_out = list_left_out(reader, in_model);
  return choice;
}

}  // namespace stoker
