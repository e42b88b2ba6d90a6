#include "checkpoint/catalog/catalog.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <tuple>
#include <utility>

namespace stoker {
namespace {

/// An attempt fails only if a step disappears during its few milliseconds.
constexpr int kAttemptsMax = 100;
/// Attempts while is_behind() is true. If `latest` points nowhere, it may stay true forever.
constexpr int kBehindMax = 10;

Status other_step(const std::string& path, std::uint64_t step) {
  return {Code::corrupt, path + ": its manifest is that of step " + std::to_string(step)};
}

/// Whether a commit happened while the names were listed. readdir may then return neither the new
/// name, which was created behind its position, nor the old one, which was removed ahead of it.
/// `latest`, which is read afterwards, shows it.
bool is_behind(const CheckpointStore& store, const Catalog& catalog) {
  if (!parse_step_name(catalog.latest) || catalog.find(catalog.latest) != nullptr) return false;
  return catalog.steps.empty() || store.find_step(catalog.latest).ok();
}

}  // namespace

const CatalogStep* Catalog::find(std::string_view name) const noexcept {
  const auto found = std::ranges::find(steps, name, &CatalogStep::name);
  return found == steps.end() ? nullptr : &*found;
}

const CatalogStep* Catalog::newest() const noexcept {
  const auto found = std::ranges::find_if(steps, &CatalogStep::is_valid);
  return found == steps.end() ? nullptr : &*found;
}

const CatalogStep* Catalog::newest_finite() const noexcept {
  const auto found = std::ranges::find_if(
      steps, [](const CatalogStep& step) { return step.is_valid() && !step.has_new_nonfinite; });
  return found == steps.end() ? nullptr : &*found;
}

void CatalogReader::forget(const std::string& name) {
  lines_.erase(name);
  unverified_.erase(name);
  std::erase_if(known_, [&](const Known& known) { return known.step.name == name; });
}

void CatalogReader::forget_unverified() {
  has_read_file_ = true;
  for (const std::string& name : std::set<std::string>(unverified_)) forget(name);
}

void CatalogReader::learn(const CatalogLine& line) {
  lines_.insert_or_assign(line.name, line);
  unverified_.erase(line.name);
}

std::string tell_others(const Catalog& catalog, std::string_view name) {
  const CatalogStep* const newest = catalog.newest();
  if (newest == nullptr) return "there is no readable checkpoint";
  const std::optional<StepName> wanted = parse_step_name(name);
  const CatalogStep* below = nullptr;
  const CatalogStep* above = nullptr;
  for (const CatalogStep& step : catalog.steps) {
    if (!wanted || !step.is_valid() || step.name == newest->name) continue;
    const std::uint64_t number = step.parsed.step;
    if (number <= wanted->step) {
      if (below == nullptr || number > below->parsed.step) below = &step;
    } else if (above == nullptr || number < above->parsed.step) {
      above = &step;
    }
  }
  std::string text = "the newest is " + newest->name;
  if (below == nullptr && above == nullptr) return text;
  text += ", the nearest ";
  text += below != nullptr && above != nullptr ? "others are " : "other is ";
  if (below != nullptr) text += below->name;
  if (below != nullptr && above != nullptr) text += " and ";
  return above == nullptr ? text : text + above->name;
}

void mark_nonfinite(Catalog& catalog) {
  const StepSummary* sound = nullptr;  // the last unmarked step
  for (auto step = catalog.steps.rbegin(); step != catalog.steps.rend(); ++step) {
    if (!step->is_valid()) continue;
    step->has_new_nonfinite =
        sound != nullptr && std::ranges::any_of(step->summary->nonfinite, [&](const auto& item) {
          const auto before = sound->nonfinite.find(item.first);
          return before == sound->nonfinite.end() || item.second > before->second;
        });
    if (!step->has_new_nonfinite) sound = step->summary.get();
  }
}

/// Returns one step with its summary or problem. `not_found` if the whole step is gone by now.
Result<CatalogStep> CatalogReader::look_at(const StoredStep& stored, const StepName& parsed) {
  const std::string& name = stored.name;
  const std::string path = store_->path() + "/" + name;
  CatalogStep step{.name = name, .parsed = parsed, .summary = nullptr, .problem = {}};
  step.generation = parsed.superseded_generation.value_or(0);
  if (!stored.is_checkpoint) {
    step.problem = Status(Code::corrupt, path + ": not a directory");
    return step;
  }
  const Result<FileInfo> file = store_->find_manifest(name);
  const auto line = lines_.find(name);
  if (file.ok() && line != lines_.end() && line->second.is_of(*file)) {
    step.summary = std::make_shared<const StepSummary>(line->second.summary);
    step.is_unverified = unverified_.contains(name);
  } else if (const Result<CheckpointManifest> manifest = store_->read_manifest(name);
             manifest.ok()) {
    step.summary = std::make_shared<const StepSummary>(summarize(*manifest));
    if (file.ok())
      learn({.name = name,
             .inode = file->inode,
             .size_bytes = file->size_bytes,
             .modified_ns = file->modified_ns,
             .summary = *step.summary});
  } else {
    step.problem = manifest.status();
    if (line != lines_.end())
      lost_[name] = std::make_shared<const StepSummary>(line->second.summary);
    if (const auto lost = lost_.find(name); lost != lost_.end()) step.lost = lost->second;
    if (!is_gone(step.problem)) return step;
    // A step without its manifest is damaged; one without its directory is gone.
    STOKER_TRY(store_->find_step(name).status());
    if (step.problem.code() != Code::not_found) return step.problem;
    step.problem = Status(Code::corrupt, path + ": it has no manifest", ENOENT);
    return step;
  }
  step.generation = step.summary->generation;
  if (step.summary->step == parsed.step) return step;
  step.problem = other_step(path, step.summary->step);
  step.summary.reset();
  return step;
}

Result<Catalog> CatalogReader::list_once(Recheck recheck) {
  Catalog catalog;
  STOKER_ASSIGN(const std::vector<StoredStep> names, store_->list_steps());
  if (!std::exchange(has_read_file_, true)) {
    lines_ = store_->read_catalog();
    for (const auto& [name, line] : lines_) unverified_.insert(name);
  }
  // `names` and `known` are both sorted by name. A writer lists for every save, so a known step
  // must cost next to nothing.
  std::vector<Known> found;
  std::vector<CatalogStep> damaged;
  found.reserve(names.size());
  std::vector<Known> known = std::exchange(known_, {});  // after a failure all are checked again
  auto before = known.begin();
  for (const StoredStep& name : names) {
    while (before != known.end() && before->step.name < name.name) ++before;
    if (recheck == Recheck::names && before != known.end() && before->step.name == name.name &&
        before->id == name.id) {
      found.push_back(std::move(*before++));
    } else if (const std::optional<StepName> parsed = parse_step_name(name.name)) {
      STOKER_ASSIGN(CatalogStep step, look_at(name, *parsed));
      if (step.is_valid())
        found.push_back({name.id, std::move(step)});
      else
        damaged.push_back(std::move(step));
    }
  }
  STOKER_ASSIGN(catalog.latest, store_->read_latest());
  known_ = std::move(found);
  forget_lines();
  std::vector<const CatalogStep*> order;
  for (const Known& valid : known_) order.push_back(&valid.step);
  for (const CatalogStep& step : damaged) order.push_back(&step);
  std::ranges::sort(order, [&](const CatalogStep* a, const CatalogStep* b) {
    const bool is_latest[] = {a->name == catalog.latest, b->name == catalog.latest};
    return std::tie(b->generation, is_latest[1], b->name) <
           std::tie(a->generation, is_latest[0], a->name);
  });
  catalog.steps.reserve(order.size());
  for (const CatalogStep* step : order) catalog.steps.push_back(*step);
  mark_nonfinite(catalog);
  return catalog;
}

/// Forgets the lines of checkpoints that are gone or damaged. Nearly every known step has a line,
/// so there is something to forget only if there are more lines than steps.
void CatalogReader::forget_lines() {
  if (lines_.size() <= known_.size()) return;
  const auto name_of = [](const Known& known) -> const std::string& { return known.step.name; };
  std::erase_if(lines_, [&](const auto& line) {
    return !std::ranges::binary_search(known_, line.first, {}, name_of);
  });
}

Result<Catalog> CatalogReader::list(Recheck recheck) {
  Status last;
  for (int attempt = 0; attempt < kAttemptsMax; ++attempt) {
    Result<Catalog> catalog = list_once(recheck);
    if (catalog.ok() && attempt < kBehindMax && is_behind(*store_, *catalog)) continue;
    if (catalog.ok() || !is_gone(catalog.status())) return catalog;
    last = catalog.status();
    // If the store itself is gone, do not list again.
    const Result<bool> is_there = store_->is_there();
    if (!is_there.ok()) return is_there.status();
    if (!*is_there) return last;
  }
  return Status(Code::unavailable, store_->path() + ": changes faster than it can be listed: " +
                                       std::string(last.message()));
}

// The loop ends: a forgotten manifest is read in the next round.
Result<Catalog> CatalogReader::list_newest(Recheck recheck) {
  for (;;) {
    STOKER_ASSIGN(Catalog catalog, list(recheck));
    bool is_read = true;
    for (const CatalogStep* step : {catalog.newest(), catalog.find(catalog.latest)}) {
      if (step == nullptr || !step->is_unverified) continue;
      forget(step->name);
      is_read = false;
    }
    if (is_read) return catalog;
  }
}

Result<Catalog> list_checkpoints(const CheckpointStore& store) {
  return CatalogReader(store).list();
}

}  // namespace stoker
