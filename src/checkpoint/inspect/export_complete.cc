#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "checkpoint/inspect/export_choice.h"
#include "checkpoint/manifest/names.h"
#include "formats/json/strict_json.h"

namespace stoker {
namespace {

constexpr std::size_t kLackingTold = 8;

std::string list_lacking(const std::set<std::string_view>& names) {
  std::string text;
  std::size_t told = 0;
  for (const std::string_view name : names) {
    if (told == kLackingTold) return text + fmt::format(" and {} more", names.size() - told);
    text += (told++ == 0 ? "" : ", ") + quote_for_message(name);
  }
  return text;
}

/// Returns the number in "rank-00003.": "3".
std::string_view rank_number(std::string_view prefix) {
  const std::size_t first = prefix.find_first_of("123456789");
  return first == std::string_view::npos ? "0" : prefix.substr(first, prefix.size() - 1 - first);
}

/// Which names of the trees are stored for all ranks, for each rank, and exported.
struct TreeNames {
  std::set<std::string_view> shared;
  std::set<std::string_view> per_rank;
  std::set<std::string_view> chosen;
};

TreeNames sort_names(std::span<const NamedTensor> named, std::span<const std::string> only) {
  TreeNames names;
  for (const NamedTensor& one : named) {
    const std::string_view rank = rank_prefix_of(one.name);
    const std::string_view name = std::string_view(one.name).substr(rank.size());
    (rank.empty() ? names.shared : names.per_rank).insert(name);
    const bool is_chosen = std::ranges::any_of(
        only, [&](const std::string& prefix) { return one.name.starts_with(prefix); });
    if (is_chosen) names.chosen.insert(name);
  }
  return names;
}

}  // namespace

Status check_complete(std::span<const NamedTensor> named, std::span<const std::string> only,
                      std::uint64_t world_size) {
  if (world_size == 1) return {};
  const TreeNames names = sort_names(named, only);
  for (const std::string& prefix : only) {
    const std::string_view rank = rank_prefix_of(prefix);
    const std::string_view tree = std::string_view(prefix).substr(rank.size());
    std::set<std::string_view> lacking;
    for (const std::string_view name : rank.empty() ? names.per_rank : names.shared)
      if (name.starts_with(tree) && !names.chosen.contains(name)) lacking.insert(name);
    if (lacking.empty()) continue;
    return Status(
        Code::invalid_argument,
        fmt::format("--only {}: {} would be missing, which {}: {}. For all tensors of one rank, "
                    "give --rank {}{}",
                    quote_for_message(prefix),
                    lacking.size() == 1 ? "a tensor" : fmt::format("{} tensors", lacking.size()),
                    rank.empty() ? "each rank has saved its own of" : "all ranks share",
                    list_lacking(lacking), rank_number(rank),
                    tree.empty() ? "" : fmt::format(" --only {}", quote_for_message(tree))));
  }
  return {};
}

}  // namespace stoker
