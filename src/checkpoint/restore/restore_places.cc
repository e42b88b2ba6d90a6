#include "checkpoint/restore/restore_places.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "checkpoint/directory/lock_record.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/ranks/message_json.h"

namespace stoker {
namespace {

std::string rank_text(std::span<const HeldCheckpoints> ranks, std::size_t rank) {
  return fmt::format("rank {} ({})", rank, ranks[rank].host);
}

std::string newest_text(const HeldCheckpoints& held) {
  return held.checkpoints.empty() ? "which has no checkpoints"
                                  : "whose newest is " + held.checkpoints.front().name;
}

/// Whether the rank has a checkpoint, even a damaged one: the run has begun.
bool has_any(const HeldCheckpoints& held) {
  return !held.checkpoints.empty() || !held.damaged.empty();
}

/// One of those that has_any() means.
std::string any_text(const HeldCheckpoints& held) {
  if (!held.checkpoints.empty()) return held.checkpoints.front().name;
  return held.damaged.front() + ", which is damaged";
}

/// Whether the rank has a checkpoint of that generation.
bool has(const HeldCheckpoints& held, const HeldCheckpoint& wanted) {
  return !name_of(held, wanted.generation, wanted.line).empty();
}

}  // namespace

Result<HeldCheckpoints> list_held(const std::function<Result<StoreHandle>()>& open) {
  HeldCheckpoints held{.host = this_machine().host, .checkpoints = {}};
  const Result<StoreHandle> store = open();
  if (is_gone(store.status())) return held;
  if (!store.ok()) return store.status();
  // What only the catalog file says is checked when the checkpoint is opened.
  STOKER_ASSIGN(const Catalog catalog, CatalogReader(*store).list_newest());
  for (const CatalogStep& step : catalog.steps) {
    if (step.is_valid()) {
      held.checkpoints.push_back(
          {.name = step.name, .generation = step.generation, .line = step.summary->line});
      if (step.name == catalog.latest) held.latest = step.name;
      continue;
    }
    if (!is_damage(step.problem) && !step.is_superseded())
      return step.problem.with_context(step.name + " cannot be read, and may be the newest");
    held.damaged.push_back(step.name);
  }
  return held;
}

std::string format_held(const HeldCheckpoints& held) {
  std::vector<std::string> names;
  std::vector<std::uint64_t> generations;
  std::vector<std::string> lines;
  for (const HeldCheckpoint& one : held.checkpoints) {
    names.push_back(one.name);
    generations.push_back(one.generation);
    lines.push_back(one.line);
  }
  return message_text({{"host", held.host},
                       {"names", Json::array_of(names)},
                       {"generations", Json::array_of(generations)},
                       {"lines", Json::array_of(lines)},
                       {"latest", held.latest},
                       {"damaged", Json::array_of(held.damaged)}});
}

Result<HeldCheckpoints> parse_held(std::string_view text) {
  MessageMembers members(text);
  HeldCheckpoints held{.host = members.text("host"), .checkpoints = {}};
  std::vector<std::string> names = members.texts("names");
  const std::vector<std::uint64_t> generations = members.numbers("generations");
  std::vector<std::string> lines = members.texts("lines");
  held.latest = members.text("latest");
  held.damaged = members.texts("damaged");
  STOKER_TRY(members.check(names.size() == generations.size() && names.size() == lines.size()));
  for (std::size_t i = 0; i < names.size(); ++i)
    held.checkpoints.push_back(
        {.name = std::move(names[i]), .generation = generations[i], .line = std::move(lines[i])});
  return held;
}

std::string name_of(const HeldCheckpoints& held, std::uint64_t generation, std::string_view line) {
  for (const HeldCheckpoint& one : held.checkpoints)
    if (one.generation == generation && one.line == line) return one.name;
  return "";
}

Status check_common(std::span<const HeldCheckpoints> ranks, const CatalogStep& step) {
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    const HeldCheckpoint wanted{
        .name = {}, .generation = step.generation, .line = step.summary->line};
    if (has(ranks[rank], wanted)) continue;
    return {Code::corrupt, fmt::format("{}: not on the disk of {}, {}", step.name,
                                       rank_text(ranks, rank), newest_text(ranks[rank]))};
  }
  return {};
}

Status check_acknowledged(std::span<const HeldCheckpoints> ranks, const std::string& path) {
  const auto& first = ranks.front().checkpoints;  // newest first
  const auto common = std::ranges::find_if(first, [&](const HeldCheckpoint& one) {
    return std::ranges::all_of(ranks, [&](const auto& held) { return has(held, one); });
  });
  if (common == first.end()) return {};
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    for (const HeldCheckpoint& one : ranks[rank].checkpoints) {
      if (one.name != ranks[rank].latest || one.generation <= common->generation) continue;
      const auto other = std::ranges::find_if(ranks, [&](const HeldCheckpoints& held) {
        return !has(held, one) && std::ranges::find(held.damaged, one.name) == held.damaged.end();
      });
      if (other == ranks.end()) continue;
      const auto lacking = static_cast<std::size_t>(other - ranks.begin());
      return {Code::corrupt,
              fmt::format("{}: {} was on the disks of all nodes, because `latest` leads to it on "
                          "{}, and is not on that of {}, {}. Attach the disk that has it. To lose "
                          "it and continue from {}, which all nodes have, name that in restore()",
                          path, one.name, rank_text(ranks, rank), rank_text(ranks, lacking),
                          newest_text(*other), common->name)};
    }
  }
  return {};
}

Result<RestoreChoice> tell_partial(std::span<const HeldCheckpoints> ranks, const std::string& path,
                                   RestoreChoice choice) {
  std::uint64_t generation = 0;
  for (const HeldCheckpoint& one : ranks.front().checkpoints)
    if (one.name == choice.name) generation = one.generation;
  std::set<std::pair<std::uint64_t, std::string>> told;
  for (std::size_t rank = 1; rank < ranks.size(); ++rank) {
    if (choice.name.empty() && has_any(ranks[rank]))
      return Status(
          Code::corrupt,
          fmt::format("{}: no checkpoint is on the disks of all nodes: that of {} has "
                      "none, and that of {} has {}. Copy its step to this node, or "
                      "start over in another directory",
                      path, rank_text(ranks, 0), rank_text(ranks, rank), any_text(ranks[rank])));
    for (const HeldCheckpoint& one : ranks[rank].checkpoints) {
      if (one.generation <= generation || has(ranks.front(), one)) continue;
      if (!told.emplace(one.generation, one.line).second) continue;
      choice.passed_over.push_back(
          {one.name,
           Status(Code::corrupt, fmt::format("{}: on the disk of {}, and not on that of "
                                             "{}, {}",
                                             one.name, rank_text(ranks, rank), rank_text(ranks, 0),
                                             newest_text(ranks.front())))});
    }
  }
  return choice;
}

}  // namespace stoker
