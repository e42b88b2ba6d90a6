#include "checkpoint/catalog/retention.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace stoker {
namespace {

/// The steps of a catalog that stay, by index instead of name: every save checks every checkpoint.
class Kept {
 public:
  explicit Kept(const Catalog& catalog)
      : catalog_(catalog), is_kept_(catalog.steps.size()), is_decisive_(catalog.steps.size()) {}

  void add(const CatalogStep* step) {
    if (step != nullptr) is_kept_[place_of(step)] = true;
  }
  /// Keeps a step because of which others are removed.
  void add_instead(const CatalogStep* step) {
    add(step);
    rely_on(step);
  }
  void rely_on(const CatalogStep* step) { is_decisive_[place_of(step)] = true; }
  /// Marks all steps as decisive.
  void suspect_all() { is_decisive_.assign(is_decisive_.size(), true); }

  RetentionChoice choice() const {
    RetentionChoice choice;
    for (std::size_t i = is_kept_.size(); i-- > 0;)
      if (!is_kept_[i]) choice.removals.push_back(catalog_.steps[i].name);
    if (choice.removals.empty()) return choice;
    for (std::size_t i = 0; i < is_kept_.size(); ++i)
      if (!is_kept_[i] || is_decisive_[i]) choice.decisive.push_back(catalog_.steps[i].name);
    return choice;
  }

 private:
  std::size_t place_of(const CatalogStep* step) const {
    return static_cast<std::size_t>(step - catalog_.steps.data());
  }

  const Catalog& catalog_;
  std::vector<bool> is_kept_;
  std::vector<bool> is_decisive_;
};

/// Whether the run continues `step`; or has seen it, and either continues its line or shares an
/// ancestor with it.
bool is_of_family(const StepSummary& step, const RetentionRules& rules) {
  const Lineage& family = rules.family;
  if (family.empty() || is_in_lineage(family, step.line, step.generation)) return true;
  const auto seen = rules.seen.find(step.line);
  return seen != rules.seen.end() && step.generation <= seen->second &&
         (is_line_of(family, step.line) || share_ancestor(step.lineage, family));
}

/// A valid step whose data is not known to be damaged.
struct SoundStep {
  const CatalogStep* step;
  bool is_own;  ///< It belongs to the family.
};

/// Returns all sound steps, newest first.
std::vector<SoundStep> find_sound(const Catalog& catalog, const RetentionRules& rules) {
  std::vector<SoundStep> sound;
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && !rules.damaged.contains(step.generation))
      sound.push_back({.step = &step, .is_own = is_of_family(*step.summary, rules)});
  return sound;
}

void keep_exempt(const Catalog& catalog, std::span<const SoundStep> sound, const AllNotes& notes,
                 const RetentionRules& rules, Kept& kept) {
  const auto keep_first = [&](auto is_wanted) {
    const auto found = std::ranges::find_if(sound, is_wanted);
    if (found != sound.end()) kept.add_instead(found->step);
  };
  keep_first([](const SoundStep&) { return true; });
  keep_first([](const SoundStep& one) { return !one.step->has_new_nonfinite; });
  keep_first([](const SoundStep& one) { return one.is_own && !one.step->has_new_nonfinite; });
  // Which step is the newest finite one depends on all earlier steps, unless the newest has no
  // non-finite values at all.
  if (sound.empty() || !sound.front().is_own || !sound.front().step->summary->nonfinite.empty())
    kept.suspect_all();
  kept.add(catalog.find(catalog.latest));
  for (const std::string& name : rules.replicating) kept.add(catalog.find(name));
  auto next = sound.begin();
  for (const CatalogStep& step : catalog.steps) {
    const bool is_sound = next != sound.end() && next->step == &step;
    const bool is_own = is_sound && (next++)->is_own;
    const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
    const bool is_pinned =
        (note != nullptr && note->is_pinned) || notes.is_damaged(step.parsed.step);
    if (is_pinned || !is_own) kept.add(&step);
  }
}

/// Returns the metric from the note, from elsewhere, or from the reference values; nothing if none
/// has it.
std::optional<double> value_of(const CatalogStep& step, const AllNotes& notes,
                               const RetentionRules& rules) {
  const std::string& metric = rules.keep_best->metric;
  const CheckpointNote* note = notes.find(step.parsed.step, step.generation);
  if (note != nullptr && note->is_about(step.summary->line))
    if (const auto value = note->values.find(metric); value != note->values.end())
      return value->second;
  const auto other = rules.values.find({step.generation, step.summary->line});
  if (other != rules.values.end()) return other->second;
  const auto value = step.summary->reference.find(metric);
  return value == step.summary->reference.end() ? std::nullopt : std::optional(value->second);
}

/// `is_alone`: no other rule decides about steps without the value, so they stay.
void keep_best(std::span<const CatalogStep* const> steps, const AllNotes& notes,
               const RetentionRules& rules, bool is_alone, Kept& kept) {
  const KeepBest& rule = *rules.keep_best;
  std::vector<std::pair<double, const CatalogStep*>> ranked;
  for (const CatalogStep* step : steps) {
    const std::optional<double> value = value_of(*step, notes, rules);
    if (!value || std::isnan(*value)) {
      if (is_alone) kept.add(step);
      continue;
    }
    ranked.emplace_back(rule.order == KeepBest::Order::min ? *value : -*value, step);
  }
  // Among equal values the newer comes first.
  std::ranges::sort(ranked, [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first < b.first : a.second->generation > b.second->generation;
  });
  for (std::size_t i = 0; i < ranked.size() && i < rule.count; ++i)
    kept.add_instead(ranked[i].second);
}

}  // namespace

RetentionChoice choose_retention(const Catalog& catalog, const AllNotes& notes,
                                 const RetentionRules& rules) {
  if (rules.keep_all()) return {};
  const std::uint64_t every = rules.keep_every.value_or(0);
  Kept kept(catalog);
  const std::vector<SoundStep> sound = find_sound(catalog, rules);
  keep_exempt(catalog, sound, notes, rules, kept);
  std::vector<const CatalogStep*> candidates;  // newest first
  for (const SoundStep& one : sound)
    if (one.is_own) candidates.push_back(one.step);
  // Steps that the newest one continues come before those abandoned by rewinding.
  if (!candidates.empty()) {
    kept.rely_on(candidates.front());
    const StepSummary& newest = *candidates.front()->summary;
    const auto is_own = [&](const CatalogStep* step) { return continues(newest, *step->summary); };
    std::ranges::stable_partition(candidates, is_own);
  }
  for (std::size_t i = 0; i < candidates.size(); ++i) {
    const CatalogStep& step = *candidates[i];
    if (rules.keep_last && i < *rules.keep_last) kept.add_instead(&step);
    if (every > 0 && step.parsed.step % every == 0) kept.add(&step);
  }
  if (rules.keep_best) keep_best(candidates, notes, rules, !rules.keep_last && every == 0, kept);
  return kept.choice();
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
