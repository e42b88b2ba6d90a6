#include "checkpoint/directory/retention.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stoker {
namespace {

/// Which of a catalog's steps stay. By place, not by name: it is asked for every save, of every
/// checkpoint there is.
class Kept {
 public:
  explicit Kept(const Catalog& catalog) : catalog_(catalog), is_kept_(catalog.steps.size()) {}

  void add(const CatalogStep* step) {
    if (step != nullptr) is_kept_[static_cast<std::size_t>(step - catalog_.steps.data())] = true;
  }
  std::vector<std::string> others() const {
    std::vector<std::string> names;
    for (std::size_t i = 0; i < is_kept_.size(); ++i)
      if (!is_kept_[i]) names.push_back(catalog_.steps[i].name);
    return names;
  }

 private:
  const Catalog& catalog_;
  std::vector<bool> is_kept_;
};

/// Whether one of the two continues the other, or both continue the same checkpoint and the run
/// has seen it.
bool is_of_family(const StepSummary& step, const RetentionRules& rules) {
  const Lineage& family = rules.family;
  if (family.empty() || is_in_lineage(family, step.line, step.generation)) return true;
  const auto seen = rules.seen.find(step.line);
  return seen != rules.seen.end() && step.generation <= seen->second &&
         share_ancestor(step.lineage, family);
}

void keep_exempt(const Catalog& catalog, const AllNotes& notes, const RetentionRules& rules,
                 Kept& kept) {
  const auto is_sound = [&](const CatalogStep& step) {
    return step.is_valid() && !rules.damaged.contains(step.generation);
  };
  const auto newest = std::ranges::find_if(catalog.steps, is_sound);
  if (newest != catalog.steps.end()) kept.add(&*newest);
  const auto is_finite = [&](const CatalogStep& step) {
    return is_sound(step) && !step.has_new_nonfinite;
  };
  const auto newest_finite = std::ranges::find_if(catalog.steps, is_finite);
  if (newest_finite != catalog.steps.end()) kept.add(&*newest_finite);
  const auto own_finite = std::ranges::find_if(catalog.steps, [&](const CatalogStep& step) {
    return is_finite(step) && is_of_family(*step.summary, rules);
  });
  if (own_finite != catalog.steps.end()) kept.add(&*own_finite);
  kept.add(catalog.find(catalog.latest));
  for (const std::string& name : rules.replicating) kept.add(catalog.find(name));
  for (const CatalogStep& step : catalog.steps) {
    const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
    const bool is_pinned =
        (note != nullptr && note->is_pinned) || notes.is_damaged(step.parsed.step);
    if (is_pinned || !is_sound(step) || !is_of_family(*step.summary, rules)) kept.add(&step);
  }
}

/// Nothing if nobody has said it.
std::optional<double> value_of(const CatalogStep& step, const AllNotes& notes,
                               const std::string& metric) {
  const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
  if (note != nullptr && !note->is_about(step.summary->line)) note = nullptr;
  for (const auto* values : {note == nullptr ? nullptr : &note->values, &step.summary->reference}) {
    if (values == nullptr) continue;
    if (const auto value = values->find(metric); value != values->end()) return value->second;
  }
  return std::nullopt;
}

/// `is_alone`: no other rule says what becomes of those that have no value, or none yet.
void keep_best(std::span<const CatalogStep* const> steps, const AllNotes& notes,
               const KeepBest& rule, bool is_alone, Kept& kept) {
  std::vector<std::pair<double, const CatalogStep*>> ranked;
  for (const CatalogStep* step : steps) {
    const std::optional<double> value = value_of(*step, notes, rule.metric);
    if (!value || std::isnan(*value)) {
      if (is_alone) kept.add(step);
      continue;
    }
    ranked.emplace_back(rule.order == KeepBest::Order::min ? *value : -*value, step);
  }
  // Of equal ones the newer is in front.
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->generation > b.second->generation;
  });
  for (std::size_t i = 0; i < ranked.size() && i < rule.count; ++i) kept.add(ranked[i].second);
}

}  // namespace

std::vector<std::string> choose_removals(const Catalog& catalog, const AllNotes& notes,
                                         const RetentionRules& rules) {
  if (rules.keep_all()) return {};
  const std::uint64_t every = rules.keep_every.value_or(0);
  Kept kept(catalog);
  keep_exempt(catalog, notes, rules, kept);
  std::vector<const CatalogStep*> candidates;  // newest first
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && !rules.damaged.contains(step.generation) &&
        is_of_family(*step.summary, rules))
      candidates.push_back(&step);
  // What the newest one continues comes before what was abandoned by going back. A name that was
  // superseded is one of those, unless another run has taken it.
  if (!candidates.empty()) {
    const StepSummary& newest = *candidates.front()->summary;
    const auto is_own = [&](const CatalogStep* step) { return continues(newest, *step->summary); };
    std::erase_if(candidates,
                  [&](const CatalogStep* step) { return step->is_superseded() && !is_own(step); });
    std::ranges::stable_partition(candidates, is_own);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CatalogStep& step = *candidates[i];
    const bool is_wanted =
        (rules.keep_last && i < *rules.keep_last) || (every > 0 && step.parsed.step % every == 0);
    if (is_wanted) kept.add(&step);
  }
  if (rules.keep_best)
    keep_best(candidates, notes, *rules.keep_best, !rules.keep_last && every == 0, kept);
  std::vector<std::string> removals = kept.others();
  std::ranges::reverse(removals);
  return removals;
}

std::set<std::string> metrics_of(const Catalog& catalog, const AllNotes& notes) {
  std::set<std::string> names;
  for (const CatalogStep& step : catalog.steps) {
    if (!step.is_valid()) continue;
    const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
    if (note != nullptr && note->is_about(step.summary->line))
      for (const auto& [name, ignored] : note->values) names.insert(name);
    for (const auto& [name, ignored] : step.summary->reference) names.insert(name);
  }
  return names;
}

}  // namespace stoker
