#include "checkpoint/catalog/step_removal.h"

#include <cerrno>
#include <set>
#include <utility>

namespace stoker {
namespace {

/// Attempts to decide while notes keep changing; after that the next save tries again.
constexpr int kDecisionsMax = 3;

/// Whether `manifest` is that of `step`, and the note is still `note` and has no pin. False in
/// doubt.
bool is_as_decided(const CheckpointStore& store, const Result<CheckpointManifest>& manifest,
                   const CatalogStep& step, const CheckpointNote* note) {
  if (!manifest.ok() || manifest->generation != step.generation ||
      (step.is_valid() && manifest->line != step.summary->line) ||
      manifest->step != step.parsed.step)
    return false;
  const Result<StepNotes> notes = read_step_notes(store, step.parsed.step);
  if (!notes.ok()) return false;
  const auto found = notes->find(step.generation);
  const CheckpointNote now = found == notes->end() ? CheckpointNote() : found->second;
  return !now.is_pinned && now == (note == nullptr ? CheckpointNote() : *note);
}

}  // namespace

Result<std::optional<std::string>> retire_checkpoint(const CheckpointWriter& writer,
                                                     const CatalogStep& step,
                                                     const CheckpointNote* note) {
  return writer.retire({.name = step.name,
                        .parsed = step.parsed,
                        .generation = step.generation,
                        .may_go = [&](const Result<CheckpointManifest>& manifest) {
                          return is_as_decided(writer.store(), manifest, step, note);
                        }});
}

namespace {

/// Lists the checkpoints and reads the manifests of the newest and the newest finite one, because
/// others are removed in favor of these.
Result<Catalog> list_before_removal(const CheckpointStore& store, CatalogReader& catalog) {
  for (;
       ;) {  // ends: a forgotten manifest is read, and a step that is not valid is not chosen again
    STOKER_ASSIGN(Catalog steps, catalog.list(CatalogReader::Recheck::manifests));
    bool is_true = true;
    std::set<const CatalogStep*> all_kept{steps.newest(), steps.newest_finite()};  // often one
    for (const CatalogStep* kept : all_kept) {
      if (kept == nullptr) continue;
      const Result<CheckpointManifest> manifest = store.read_manifest(kept->name);
      if (manifest.ok() && manifest->generation == kept->generation) continue;
      catalog.forget(kept->name);
      is_true = false;
    }
    if (is_true) return steps;
  }
}

}  // namespace

std::vector<std::string> find_perhaps_common(const CheckpointStore& store, const Catalog& catalog) {
  const CatalogStep* const latest = catalog.find(catalog.latest);
  std::vector<std::string> names;
  if (latest == nullptr || !latest->is_valid()) return names;
  bool has_places = false;
  for (const CatalogStep* const step : {latest, catalog.newest()}) {
    const Result<CheckpointManifest> manifest = store.read_manifest(step->name);
    has_places = has_places || !manifest.ok() || !manifest->places.empty();
  }
  if (!has_places) return names;
  for (const CatalogStep& step : catalog.steps)
    if (step.is_valid() && step.generation >= latest->generation) names.push_back(step.name);
  return names;
}

Result<RemovalDecision> decide_removals(const CheckpointStore& store, const RetentionRules& rules,
                                        CatalogReader& catalog, NotesReader& notes) {
  for (;;) {  // ends: each round reads manifests that were not read before
    RemovalDecision decision;
    STOKER_ASSIGN(decision.catalog, list_before_removal(store, catalog));
    STOKER_ASSIGN(decision.notes, notes.read());
    RetentionChoice choice = choose_retention(decision.catalog, decision.notes, rules);
    bool is_read = true;
    for (const std::string& name : choice.decisive) {
      if (!decision.catalog.find(name)->is_unverified) continue;
      catalog.forget(name);
      is_read = false;
    }
    decision.names = std::move(choice.removals);
    if (is_read) return decision;
  }
}

RetentionReport retire_unwanted(const CheckpointWriter& writer, const RetentionRules& rules,
                                CatalogReader& catalog, NotesReader& notes) {
  RetentionReport report;
  if (rules.keep_all()) return report;
  for (int decision = 0; decision < kDecisionsMax; ++decision) {
    const Result<RemovalDecision> decided = decide_removals(writer.store(), rules, catalog, notes);
    if (!decided.ok()) {
      report.failure = decided.status();
      return report;
    }
    bool has_changed = false;
    for (const std::string& name : decided->names) {
      const CatalogStep& step = *decided->catalog.find(name);
      Result<std::optional<std::string>> condemned =
          retire_checkpoint(writer, step, decided->notes.find(step.parsed.step, step.generation));
      // A checkpoint in a lower layer of an overlay filesystem cannot be moved, and uses no space.
      if (condemned.status().os_error() == EXDEV) continue;
      if (!condemned.ok()) {  // a failure does not stop the others
        if (report.failure.ok()) report.failure = condemned.status();
        if (is_gone(condemned.status())) return report;
        continue;
      }
      has_changed = !condemned->has_value();
      if (has_changed) break;
      report.names.push_back(name);
      report.condemned.push_back(**std::move(condemned));
    }
    if (!has_changed) return report;
  }
  return report;
}

Result<bool> remove_checkpoint(const CheckpointWriter& writer, const CatalogStep& step) {
  STOKER_ASSIGN(const StepNotes notes, read_step_notes(writer.store(), step.parsed.step));
  const auto note = notes.find(step.generation);
  STOKER_ASSIGN(const std::optional<std::string> condemned,
                retire_checkpoint(writer, step, note == notes.end() ? nullptr : &note->second));
  if (!condemned) return false;
  STOKER_TRY(writer.remove(*condemned));
  return true;
}

}  // namespace stoker
