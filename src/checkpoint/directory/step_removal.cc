#include "checkpoint/directory/step_removal.h"

#include <cerrno>
#include <chrono>
#include <utility>

namespace stoker {
namespace {

/// Somebody who annotates faster than this decides nothing for long: the next save tries again.
constexpr int kDecisionsMax = 3;
constexpr nanoseconds kNotesTimeout = std::chrono::seconds(1);

/// Whether what lies in `place` is the checkpoint that was decided on, and the note is the one that
/// was known then. In doubt it is not.
bool is_as_decided(const OwnerDirectory& owner, const PathAt& place, const CatalogStep& step,
                   const CheckpointNote* note) {
  const CheckpointDirectory& directory = owner.directory();
  const Result<CheckpointManifest> manifest = read_checkpoint_manifest(directory.ops(), place);
  if (!manifest.ok() || manifest->generation != step.generation ||
      (step.is_valid() && manifest->line != step.summary->line) ||
      manifest->step != step.parsed.step)
    return false;
  const Result<StepNotes> notes = read_step_notes(directory, step.parsed.step);
  if (!notes.ok()) return false;
  const auto found = notes->find(step.generation);
  const CheckpointNote now = found == notes->end() ? CheckpointNote() : found->second;
  return !now.is_pinned && now == (note == nullptr ? CheckpointNote() : *note);
}

}  // namespace

// 1. Rename it into the owner's directory, fsync both.  2. Read manifest and note again: whoever
// has pinned it before step 1 has published the note by now, and whoever does it later finds no
// checkpoint.  3. Rename it to a name that may be removed, fsync: no crash brings it back from here
// on.  If step 2 finds something else, the name is given back.
Result<std::optional<std::string>> retire_checkpoint(const OwnerDirectory& owner,
                                                     const CatalogStep& step,
                                                     const CheckpointNote* note) {
  FileOps& ops = owner.directory().ops();
  const AsideName aside{
      .purpose = AsideName::Purpose::retire, .step = step.parsed, .generation = step.generation};
  const std::string retired = aside_name(aside);
  // So that a pin waits instead of failing; without it the steps are as safe.
  const Result<NotesLock> lock = NotesLock::take(owner.directory(), kNotesTimeout);
  static_cast<void>(lock);
  const PathAt place = owner.directory().at(step.name);
  STOKER_TRY(explain_layers(ops.rename(place, owner.at(retired)), place));
  STOKER_TRY(owner.sync_both());
  ops.reached("retention.retired");
  if (!is_as_decided(owner, owner.at(retired), step, note)) {
    STOKER_TRY(owner.give_back(retired, aside, /*is_superseded=*/false).status());
    ops.reached("retention.given_back");
    return std::optional<std::string>();
  }
  STOKER_ASSIGN(std::string condemned, owner.condemn(retired));
  ops.reached("retention.condemned");
  return std::optional<std::string>(std::move(condemned));
}

namespace {

/// The newest and the newest finite one are read, because others are removed for their sake.
Result<Catalog> list_before_removal(const CheckpointDirectory& directory, CatalogReader& catalog) {
  for (;;) {  // ends: what is forgotten is read, and then no longer chosen if it is not valid
    STOKER_ASSIGN(Catalog steps, catalog.list(CatalogReader::Recheck::manifests));
    bool is_true = true;
    for (const CatalogStep* kept : {steps.newest(), steps.newest_finite()}) {
      if (kept == nullptr) continue;
      const Result<CheckpointManifest> manifest =
          read_checkpoint_manifest(directory.ops(), directory.at(kept->name));
      if (manifest.ok() && manifest->generation == kept->generation) continue;
      catalog.forget(kept->name);
      is_true = false;
    }
    if (is_true) return steps;
  }
}

}  // namespace

Result<RemovalDecision> decide_removals(const CheckpointDirectory& directory,
                                        const RetentionRules& rules, CatalogReader& catalog,
                                        NotesReader& notes) {
  for (;;) {  // ends: each time manifests are read that were not read before
    RemovalDecision decision;
    STOKER_ASSIGN(decision.catalog, list_before_removal(directory, catalog));
    STOKER_ASSIGN(decision.notes, notes.read());
    RetentionChoice choice = choose_retention(decision.catalog, decision.notes, rules);
    bool is_read = true;
    for (const std::string& name : choice.decisive) {
      if (!decision.catalog.find(name)->is_hearsay) continue;
      catalog.forget(name);
      is_read = false;
    }
    decision.names = std::move(choice.removals);
    if (is_read) return decision;
  }
}

RetentionReport retire_unwanted(const OwnerDirectory& owner, const RetentionRules& rules,
                                CatalogReader& catalog, NotesReader& notes) {
  RetentionReport report;
  if (rules.keep_all()) return report;
  for (int decision = 0; decision < kDecisionsMax; ++decision) {
    const Result<RemovalDecision> decided =
        decide_removals(owner.directory(), rules, catalog, notes);
    if (!decided.ok()) {
      report.failure = decided.status();
      return report;
    }
    bool has_changed = false;
    for (const std::string& name : decided->names) {
      const CatalogStep& step = *decided->catalog.find(name);
      Result<std::optional<std::string>> condemned =
          retire_checkpoint(owner, step, decided->notes.find(step.parsed.step, step.generation));
      // In a lower layer of an overlay filesystem it cannot be moved, and costs nothing.
      if (condemned.status().os_error() == EXDEV) continue;
      if (!condemned.ok()) {  // one that cannot be removed does not keep the others
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

Result<bool> remove_checkpoint(const OwnerDirectory& owner, const CatalogStep& step) {
  const CheckpointDirectory& directory = owner.directory();
  STOKER_ASSIGN(const StepNotes notes, read_step_notes(directory, step.parsed.step));
  const auto note = notes.find(step.generation);
  STOKER_ASSIGN(const std::optional<std::string> condemned,
                retire_checkpoint(owner, step, note == notes.end() ? nullptr : &note->second));
  if (!condemned) return false;
  STOKER_TRY(owner.remove(*condemned));
  return true;
}

}  // namespace stoker
