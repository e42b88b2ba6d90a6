#include "checkpoint/history.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace stoker {

Status History::refresh() {
  STOKER_ASSIGN(Catalog catalog, reader_.list(CatalogReader::Recheck::names));
  for (const CatalogStep& step : catalog.steps) {
    if (!step.problem.ok() && !is_damage(step.problem) && step.generation == 0)
      return step.problem.with_context("its generation is not known, so no other can be numbered");
    learn_generation(step.generation);
    if (step.is_valid()) ever_.insert_or_assign(step.generation, step.summary);
  }
  catalog_ = std::move(catalog);
  return {};
}

// What is greater than any manifest may say is a name that somebody has made up.
void History::learn_generation(std::uint64_t generation) noexcept {
  if (generation <= kGenerationMax)
    greatest_generation_ = std::max(greatest_generation_, generation);
}

Status History::add(const CatalogLine& line) {
  reader_.learn(line);
  if (catalog_.find(line.name) != nullptr) return refresh();  // that has another name by now
  CatalogStep step{.name = line.name,
                   .parsed = {.step = line.summary.step, .superseded_generation = {}},
                   .generation = line.summary.generation,
                   .summary = std::make_shared<const StepSummary>(line.summary),
                   .problem = {}};
  learn_generation(step.generation);
  ever_.insert_or_assign(step.generation, step.summary);
  catalog_.steps.insert(catalog_.steps.begin(), std::move(step));
  catalog_.latest = line.name;
  mark_nonfinite(catalog_);
  return {};
}

const CatalogStep* History::find(std::uint64_t step) const {
  return catalog_.find(step_name(step));
}

bool History::is_ancestor(const CatalogStep& step,
                          const std::optional<CheckpointParent>& head) const {
  std::optional<CheckpointParent> at = head;
  // Generations fall along the chain, so it ends even if somebody has tied it into a loop.
  while (at && at->generation >= step.generation && at->generation > 0) {
    if (at->generation == step.generation) return at->step == step.parsed.step;
    const auto next = ever_.find(at->generation);
    if (next == ever_.end()) return false;
    if (is_in_lineage(next->second->lineage, step.generation)) return true;
    const std::optional<CheckpointParent> parent = next->second->parent;
    if (parent && parent->generation >= at->generation) return false;
    at = parent;
  }
  return false;
}

Lineage History::lineage_after(const std::optional<CheckpointParent>& head) const {
  std::vector<std::uint64_t> newest_first;
  Lineage lineage;
  std::optional<CheckpointParent> at = head;
  while (at && at->generation > 0 &&
         (newest_first.empty() || at->generation < newest_first.back())) {
    newest_first.push_back(at->generation);
    const auto found = ever_.find(at->generation);
    if (found == ever_.end()) break;
    lineage = found->second->lineage;
    if (!lineage.empty()) break;
    at = found->second->parent;  // of before there were lineages: as far as they can be followed
  }
  for (auto generation = newest_first.rbegin(); generation != newest_first.rend(); ++generation)
    lineage = continue_lineage(std::move(lineage), *generation);
  return lineage;
}

}  // namespace stoker
