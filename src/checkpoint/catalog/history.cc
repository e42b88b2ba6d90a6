#include "checkpoint/catalog/history.h"

#include <algorithm>
#include <functional>
#include <span>
#include <utility>
#include <vector>

namespace stoker {

Status History::refresh() {
  STOKER_ASSIGN(Catalog catalog, reader_.list_newest(CatalogReader::Recheck::names));
  for (const CatalogStep& step : catalog.steps) {
    if (!step.problem.ok() && !is_damage(step.problem) && step.generation == 0)
      return step.problem.with_context(
          "its generation is not known, so the next save cannot be numbered");
    learn_generation(step.generation);
    if (step.lost != nullptr) learn_generation(step.lost->generation);
    if (step.is_valid())
      ever_.insert_or_assign({step.generation, step.summary->line}, step.summary);
  }
  catalog_ = std::move(catalog);
  return {};
}

// A generation above kGenerationMax is from a forged name.
void History::learn_generation(std::uint64_t generation) noexcept {
  if (generation <= kGenerationMax)
    greatest_generation_ = std::max(greatest_generation_, generation);
}

Status History::add(const CatalogLine& line) {
  reader_.learn(line);
  if (catalog_.find(line.name) != nullptr) return refresh();  // the old one was superseded
  CatalogStep step{.name = line.name,
                   .parsed = {.step = line.summary.step, .superseded_generation = {}},
                   .generation = line.summary.generation,
                   .summary = std::make_shared<const StepSummary>(line.summary),
                   .problem = {}};
  learn_generation(step.generation);
  ever_.insert_or_assign({step.generation, step.summary->line}, step.summary);
  catalog_.steps.insert(catalog_.steps.begin(), std::move(step));
  catalog_.latest = line.name;
  mark_nonfinite(catalog_);
  return {};
}

const CatalogStep* History::find(std::uint64_t step) const {
  return catalog_.find(step_name(step));
}

const StepSummary* History::find_parent(const CheckpointParent& parent) const {
  for (auto at = ever_.lower_bound({parent.generation, parent.line});
       at != ever_.end() && at->first.first == parent.generation; ++at)
    if (is_parent(parent, *at->second)) return at->second.get();
  return nullptr;
}

CheckpointParent History::with_line(CheckpointParent head) const {
  if (head.line.empty())
    if (const StepSummary* const found = find_parent(head)) head.line = found->line;
  return head;
}

bool History::is_ancestor(const CatalogStep& step,
                          const std::optional<CheckpointParent>& head) const {
  if (!step.is_valid()) return false;
  std::optional<CheckpointParent> at = head;
  // Generations must decrease along the chain, so the loop ends even if the chain is forged.
  while (at && at->generation >= step.generation && at->generation > 0) {
    if (at->generation == step.generation) return is_parent(*at, *step.summary);
    const StepSummary* const next = find_parent(*at);
    if (next == nullptr) return false;
    if (is_in_lineage(next->lineage, step.summary->line, step.generation)) return true;
    if (next->parent && next->parent->generation >= at->generation) return false;
    at = next->parent;
  }
  return false;
}

Lineage History::lineage_after(const std::optional<CheckpointParent>& head) const {
  std::vector<CheckpointParent> newest_first;
  Lineage lineage;
  std::optional<CheckpointParent> at = head;
  while (at && at->generation > 0 &&
         (newest_first.empty() || at->generation < newest_first.back().generation)) {
    newest_first.push_back(with_line(*at));
    const StepSummary* const found = find_parent(*at);
    if (found == nullptr) break;
    lineage = found->lineage;
    if (!lineage.empty()) break;
    at = found->parent;  // saved before lineages existed: follow its parents as far as possible
  }
  const auto continued = [&newest_first](Lineage before) {
    for (auto next = newest_first.rbegin(); next != newest_first.rend(); ++next)
      before = continue_lineage(std::move(before), next->line, next->generation);
    return before;
  };
  // A range without existing checkpoints is dropped, unless an existing checkpoint has branched off
  // in it: by this range retention knows that the branch belongs to the run.
  const auto is_needed = [this, run = continued(lineage)](const GenerationRange& range) {
    const std::span<const GenerationRange> one{&range, 1};
    return std::ranges::any_of(catalog_.steps, [&](const CatalogStep& step) {
      if (!step.is_valid()) return false;
      const StepSummary& there = *step.summary;
      if (is_in_lineage(one, there.line, there.generation)) return true;
      return !is_in_lineage(run, there.line, there.generation) &&
             (is_line_of(one, there.line) || share_ancestor(there.lineage, one));
    });
  };
  std::erase_if(lineage, std::not_fn(is_needed));
  return continued(std::move(lineage));
}

}  // namespace stoker
