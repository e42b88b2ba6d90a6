#include "checkpoint/retention.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace stoker {
namespace {

using Kept = std::unordered_set<std::string_view>;

void keep_exempt(const Catalog& catalog, const AllNotes& notes, const RetentionRules& rules,
                 Kept& kept) {
  if (const CatalogStep* newest = catalog.newest()) kept.insert(newest->name);
  const auto finite = std::ranges::find_if(catalog.steps, [](const CatalogStep& step) {
    return step.is_valid() && !step.has_new_nonfinite;
  });
  if (finite != catalog.steps.end()) kept.insert(finite->name);
  kept.insert(catalog.latest);
  kept.insert(rules.replicating.begin(), rules.replicating.end());
  for (const CatalogStep& step : catalog.steps) {
    const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
    const bool is_pinned =
        (note != nullptr && note->is_pinned) || notes.is_damaged(step.parsed.step);
    if (is_pinned || !step.is_valid()) kept.insert(step.name);
  }
}

void keep_best(std::span<const CatalogStep* const> steps, const AllNotes& notes,
               const KeepBest& rule, Kept& kept) {
  std::vector<std::pair<double, const CatalogStep*>> ranked;
  for (const CatalogStep* step : steps) {
    const CheckpointNote* note = notes.find(step->parsed.step, step->generation);
    if (note == nullptr) continue;
    const auto value = note->values.find(rule.metric);
    if (value == note->values.end() || std::isnan(value->second)) continue;
    ranked.emplace_back(rule.order == KeepBest::Order::min ? value->second : -value->second, step);
  }
  // Of equal ones the newer is in front.
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->generation > b.second->generation;
  });
  for (std::size_t i = 0; i < ranked.size() && i < rule.count; ++i)
    kept.insert(ranked[i].second->name);
}

}  // namespace

std::vector<std::string> choose_removals(const Catalog& catalog, const AllNotes& notes,
                                         const RetentionRules& rules) {
  if (rules.keep_all()) return {};
  const std::uint64_t every = rules.keep_every.value_or(0);
  Kept kept;
  keep_exempt(catalog, notes, rules, kept);
  std::vector<const CatalogStep*> candidates;  // newest first
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && !step.is_superseded()) candidates.push_back(&step);
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CatalogStep& step = *candidates[i];
    const bool is_wanted =
        (rules.keep_last && i < *rules.keep_last) || (every > 0 && step.parsed.step % every == 0);
    if (is_wanted) kept.insert(step.name);
  }
  if (rules.keep_best) keep_best(candidates, notes, *rules.keep_best, kept);
  std::vector<std::string> removals;
  for (const CatalogStep& step : catalog.steps)
    if (!kept.contains(step.name)) removals.push_back(step.name);
  std::ranges::reverse(removals);
  return removals;
}

}  // namespace stoker
