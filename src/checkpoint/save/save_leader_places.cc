/// \file
/// SaveLeader, for saves to several places (manifest/places.h).
#include <algorithm>
#include <cerrno>
#include <iterator>
#include <new>
#include <utility>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/save_leader.h"
#include "checkpoint/save/save_places.h"

namespace stoker {

Result<std::uint64_t> SaveLeader::used_generation() {
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr) return not_held();
  // What other places remove depends on what this one has, so that no catalog file may decide it.
  if (!held->has_numbered && !retention_.keep_all()) held->committed.reader().forget_unverified();
  STOKER_ASSIGN(const std::uint64_t next, next_generation(*held));
  return next - 1;
}

PlaceReport SaveLeader::report() {
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr) return {.failure = not_held()};
  if (retention_.keep_all()) return {};
  if (const Status listed = held->committed.refresh(); !listed.ok()) return {.failure = listed};
  const Result<AllNotes> notes = held->notes.read();
  if (!notes.ok()) return {.failure = notes.status()};
  return report_of(held->committed.catalog(), *notes, retention_);
}

Result<SaveLeader::MadeManifest> SaveLeader::merge(const SaveJob& job,
                                                   std::vector<CheckpointPart> parts,
                                                   std::uint64_t generation) {
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr) return not_held();
  held->committed.learn_generation(generation);
  return make_manifest(job, std::move(parts), *held);
}

// If a round fails after the checkpoint was sealed in all places, some may have published it. It
// stays where it is: it may become common, if only the answer of a place was lost. Otherwise a
// later save removes it, because it belongs to this run and not all places have it.
EndMessage SaveLeader::commit_place(const SaveJob& job, const MadeManifest& made,
                                    PlaceRounds& rounds) {
  const CheckpointManifest& manifest = made.manifest;
  const std::shared_ptr<Held> held = this->held();
  CommitStage stage = CommitStage::staged;
  Status status = not_held();
  if (held != nullptr) {
    const CatalogStep* const present = held->committed.find(manifest.step);
    try {
      status = held->writer->commit(
          {.staging = job.staging_name,
           .manifest = manifest,
           .manifest_text = made.text,
           .superseded = present == nullptr ? std::nullopt : std::optional(present->generation),
           .place = job.places[coordinator_.rank()],
           .before_visible = [&] { return rounds.sealed({}); },
           .before_latest = [&] { return rounds.durable({}); }},
          stage);
    } catch (const std::bad_alloc&) {
      status = Status::from_errno(ENOMEM, "commit", step_name(manifest.step));
    }
  }
  rounds.finish(status.ok() ? status : explain(job, status));
  if (rounds.outcome() == SaveOutcome::failed) return fail_staged(job, rounds.failure());
  EndMessage end{.outcome = rounds.outcome(),
                 .generation = manifest.generation,
                 .line = manifest.line,
                 .failure = rounds.failure()};
  // A place may have it, so the generation is used up, also if this place never sees it.
  if (held != nullptr) held->committed.learn_generation(manifest.generation);
  if (!rounds.is_durable()) {
    if (stage == CommitStage::staged) discard(job);
    std::uint64_t& seen = retention_.seen[manifest.line];
    seen = std::max(seen, manifest.generation);
    return end;
  }
  move_head(manifest);
  try {
    retention_.family = continue_lineage(manifest.lineage, manifest.line, manifest.generation);
    if (!status.ok())
      end.failure = explain_behind_commit(status, "`latest` did not move", *held);
    else
      static_cast<void>(add_to_catalog(manifest, *held));
  } catch (const std::bad_alloc&) {
    end.failure = Status::from_errno(ENOMEM, "commit", step_name(manifest.step));
  }
  return end;
}

void SaveLeader::choose_kept(std::span<const PlaceReport> reports, EndMessage& end) {
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr || end.outcome != SaveOutcome::committed) return;
  const auto failed =
      std::ranges::find_if(reports, [](const PlaceReport& report) { return !report.failure.ok(); });
  if (failed != reports.end()) {
    end.failure = failed->failure.with_context("it is committed, but retention failed");
    return;
  }
  const bool has_rules = !retention_.keep_all();
  if (!std::ranges::all_of(
          reports, [&](const PlaceReport& report) { return report.has_rules == has_rules; })) {
    end.failure = Status(Code::invalid_argument,
                         "it is committed, but nothing old was removed: the rules of what to keep "
                         "must be the same on all ranks, and only one of rank 0 and a rank of "
                         "another node has any");
    return;
  }
  if (!has_rules) return;
  const RetentionRules rules = rules_for_common(retention_, held->committed.catalog(), reports);
  const Result<RemovalDecision> decided =
      decide_removals(*held->stores.writer, rules, held->committed.reader(), held->notes);
  if (!decided.ok()) {
    end.failure = decided.status().with_context("it is committed, but retention failed");
    return;
  }
  end.drop = ids_of(decided->catalog, decided->names);
  std::vector<PlaceReport> all(reports.begin(), reports.end());
  all.push_back(report_of(decided->catalog, decided->notes, retention_));
  end.keep = ids_to_keep(decided->catalog, end.drop, all);
  end.has_decided = true;
}

Status SaveLeader::retire_others(const EndMessage& end) {
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr || retention_.keep_all() || !end.has_decided) return {};
  try {
    RetentionReport retired = retire_dropped(end, *held);
    const RetentionRules rules = rules_for_rest(retention_, held->committed.catalog(), end.keep);
    RetentionReport rest =
        retire_unwanted(*held->writer, rules, held->committed.reader(), held->notes);
    condemned_ = std::move(retired.condemned);
    std::ranges::move(rest.condemned, std::back_inserter(condemned_));
    if (retired.failure.ok()) retired.failure = rest.failure;
    return explain_behind_commit(retired.failure, "retention failed", *held);
  } catch (const std::bad_alloc&) {
    return Status::from_errno(ENOMEM, "retire checkpoints", "");
  }
}

RetentionReport SaveLeader::retire_dropped(const EndMessage& end, Held& held) const {
  RetentionReport report;
  for (const CatalogStep& step : held.committed.catalog().steps) {
    if (!step.is_valid()) continue;
    const std::string id = checkpoint_id(step.summary->generation, step.summary->line);
    if (std::ranges::find(end.drop, id) == end.drop.end()) continue;
    const Result<StepNotes> notes = read_step_notes(*held.stores.writer, step.parsed.step);
    if (!notes.ok()) continue;  // counts as a pin
    const auto note = notes->find(step.generation);
    Result<std::optional<std::string>> condemned =
        retire_checkpoint(*held.writer, step, note == notes->end() ? nullptr : &note->second);
    // A checkpoint in a lower layer of an overlay filesystem cannot be moved, and uses no space.
    if (report.failure.ok() && condemned.status().os_error() != EXDEV)
      report.failure = condemned.status();
    if (condemned.ok() && *condemned) report.condemned.push_back(**std::move(condemned));
  }
  return report;
}

}  // namespace stoker
