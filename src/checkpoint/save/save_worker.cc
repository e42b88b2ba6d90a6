#include "checkpoint/save/save_worker.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest/names.h"
#include "checkpoint/save/abandon_save.h"
#include "checkpoint/save/save_places.h"
#include "checkpoint/save/save_store.h"

namespace stoker {
namespace {

constexpr std::uint32_t kDepth = 8;

std::string key_of(const char* round, const SaveJob& job) {
  return std::string(round) + "-" + std::to_string(job.number);
}

}  // namespace

/// Adds what to do if a rank finds nothing where rank 0 has made the staging directory's parent.
Status SaveWorker::with_disk_hint(const Status& failure, const SaveJob& job) const {
  const bool is_other = parts_.coordinator.rank() != 0 && job.places.empty();
  if (failure.code() != Code::not_found || !is_other) return failure;
  return Status(failure.code(),
                std::string(failure.message()) + ". Rank 0 has made " +
                    job.staging_name.substr(0, job.staging_name.find('/')) + " in its " +
                    parts_.options.directory +
                    ", which may be another directory than that of rank " +
                    std::to_string(parts_.coordinator.rank()) +
                    ": if every node has a disk of its own, use disks=\"private\"",
                failure.os_error());
}

Status SaveWorker::begin(const SaveJob& job) {
  STOKER_TRY(stuck_.check());
  STOKER_TRY(parts_.ops.begin(job.deadline));
  if (store_ != nullptr && !store_->is_where_it_was()) store_.reset();
  if (store_ == nullptr) {
    STOKER_ASSIGN(store_, open_save_store(parts_.options, parts_.ops));
  }
  if (engine_ != nullptr) return {};
  STOKER_ASSIGN(engine_, parts_.options.engine
                             ? parts_.options.engine()
                             : make_engine(EngineKind::automatic, {.depth = kDepth}));
  return {};
}

Result<WrittenPart> SaveWorker::write(SaveJob& job) {
  STOKER_TRY(job.failure);
  if (Status begun = with_disk_hint(begin(job), job); !begun.ok()) {
    job.staging->fail(begun);
    return begun;
  }
  const auto reservation_changed = [&](Reservation reservation) {
    job.reservation.store(reservation, std::memory_order_relaxed);
    parts_.reservation_changed();
  };
  std::vector<StagedFile> files;
  for (const LayoutFile& file : job.layout.files)
    files.push_back({.name = file.name, .size_bytes = file.size_bytes});
  std::unique_ptr<StagedPart> part = store_->make_part({.staging = job.staging_name,
                                                        .files = std::move(files),
                                                        .engine = *engine_,
                                                        .file = parts_.options.file});
  const std::shared_ptr<const LinkParent> parent = parts_.learned.parent();
  Result<WrittenPart> written = write_part({.part = *part,
                                            .layout = job.layout,
                                            .tensors = job.stored,
                                            .staging = *job.staging,
                                            .state_json = job.request.state_json,
                                            .copies = job.copies,
                                            .depth = kDepth,
                                            .parent = parent.get(),
                                            .limiter = parts_.limiter,
                                            .deadline = job.deadline,
                                            .reservation_changed = reservation_changed,
                                            .written_bytes = &job.written_bytes});
  if (written.ok()) return written;
  if (part->in_flight() > 0) {
    just_stuck_ = std::make_unique<StuckWrite>();
    just_stuck_->engine = std::move(engine_);
    just_stuck_->part = std::move(part);
  }
  engine_.reset();
  if (parts_.coordinator.world_size() == 1) return written;  // no rank to name
  return with_disk_hint(written.status(), job)
      .with_context("rank " + std::to_string(job.layout.rank));
}

/// Turns std::bad_alloc into a failed save.
Result<WrittenPart> SaveWorker::write_or_fail(SaveJob& job) {
  try {
    return write(job);
  } catch (const std::bad_alloc&) {
    const Status failure = Status::from_errno(ENOMEM, "write a checkpoint", "");
    if (job.staging != nullptr) job.staging->fail(failure);
    return failure;
  }
}

void SaveWorker::give_memory_back(const std::shared_ptr<SaveJob>& job, const Fills& fills) {
  const bool is_filled = fills.await(job->number, job->deadline);
  if (is_filled && just_stuck_ == nullptr) {
    parts_.memory.give_back(std::move(job->arena));
    return;
  }
  if (just_stuck_ == nullptr) just_stuck_ = std::make_unique<StuckWrite>();
  just_stuck_->arena = std::move(job->arena);
  if (!is_filled) fills.keep(job->number, job, *just_stuck_);
  stuck_.keep(std::move(just_stuck_));
}

EndMessage SaveWorker::run(const std::shared_ptr<SaveJob>& shared, const Fills& fills) {
  SaveJob& job = *shared;
  job.stage.store(SaveStage::writing, std::memory_order_relaxed);
  Result<WrittenPart> written = write_or_fail(job);
  give_memory_back(shared, fills);
  job.stage.store(SaveStage::committing, std::memory_order_relaxed);
  if (written.ok() && parts_.options.dedup)
    parts_.learned.record(job.layout, job.stored, written->scans);
  const bool is_first = parts_.coordinator.rank() == 0;
  EndMessage end;
  if (job.places.empty())
    end = is_first ? lead(job, written) : follow(job, written);
  else
    end = is_first ? lead_places(job, written) : follow_places(job, written);
  if (end.outcome == SaveOutcome::committed && written.ok())
    parts_.learned.set_parent(
        std::make_shared<LinkParent>(LinkParent{.step = step_name(job.request.step),
                                                .files = std::move(written->part.files),
                                                .infos = std::move(written->infos)}));
  return end;
}

/// On rank 0 also hears the others, and returns the first failure, with its rank.
Result<std::vector<PartMessage>> SaveWorker::hear_parts(const SaveJob& job,
                                                        const PartMessage& own) {
  Result<std::vector<std::string>> texts =
      parts_.coordinator.gather(key_of("part", job), format_message(own), job.deadline);
  STOKER_TRY(own.failure);
  if (!texts.ok()) return texts.status();
  std::vector<PartMessage> heard;
  for (std::size_t rank = 0; rank < texts->size(); ++rank) {
    Result<PartMessage> said = parse_part_message((*texts)[rank]);
    const Status failure = said.ok() ? said->failure : said.status();
    // Errors of write() name the rank; earlier ones do not.
    const std::string name = "rank " + std::to_string(rank);
    if (failure.message().find(name) == std::string_view::npos)
      STOKER_TRY(failure.with_context(name));
    STOKER_TRY(failure);
    heard.push_back(*std::move(said));
  }
  // Other ranks may have given up by now. A single rank commits even after the deadline.
  if (parts_.coordinator.world_size() > 1 && Clock::now() >= job.deadline)
    return Status(Code::unavailable, "rank 0 did not hear from all ranks before the deadline");
  return heard;
}

EndMessage SaveWorker::lead(SaveJob& job, const Result<WrittenPart>& written) {
  const Status failure = hear_parts(job, {.failure = written.status()}).status();
  EndMessage end{.outcome = SaveOutcome::failed, .failure = parts_.leader->explain(job, failure)};
  if (failure.ok())
    end = parts_.leader->commit(job, written->part);
  else
    parts_.leader->discard(job);
  // A rank that does not receive this gives up at its own deadline.
  static_cast<void>(
      parts_.coordinator.broadcast(key_of("end", job), format_message(end), job.deadline));
  return end;
}

EndMessage SaveWorker::follow(SaveJob& job, const Result<WrittenPart>& written) {
  const PartMessage own{.failure = written.status()};
  Status silence =
      parts_.coordinator.gather(key_of("part", job), format_message(own), job.deadline).status();
  if (silence.ok()) {
    const Result<std::string> text =
        parts_.coordinator.broadcast(key_of("end", job), "", job.deadline);
    if (text.ok()) {
      const Result<EndMessage> end = parse_end_message(*text);
      if (end.ok()) return *end;
      return {.outcome = SaveOutcome::unknown, .failure = end.status()};
    }
    silence = text.status();
  }
  return give_up(job, written, std::move(silence));
}

EndMessage SaveWorker::give_up(const SaveJob& job, const Result<WrittenPart>& written,
                               Status silence) {
  // Rank 0 commits nothing before every rank has reported success.
  if (!written.ok()) return {.outcome = SaveOutcome::failed, .failure = written.status()};
  // Rank 0 is dead, or only slow.
  const SaveOutcome outcome = abandon_save({.store = *store_,
                                            .staging = job.staging_name,
                                            .step = job.request.step,
                                            .part = written->part});
  if (outcome == SaveOutcome::unknown)
    silence = Status(silence.code(),
                     std::string(silence.message()) +
                         ". Rank 0 may have committed the checkpoint: the outcome is unknown",
                     silence.os_error());
  return {.outcome = outcome, .failure = silence};
}

// Several places ----------------------------------------------------------------------------------

// Rounds 3 to 8 of save_messages.h.

namespace {

/// Runs `act`, and returns its Status or Result; a failure if memory is short. A rank that left the
/// save with an exception would let the others wait until the deadline.
template <typename Act>
auto with_memory(const Act& act) -> decltype(act()) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return Status::from_errno(ENOMEM, "commit a checkpoint", "");
  }
}

Result<std::vector<CheckpointPart>> parts_of(std::span<const PartMessage> messages) {
  std::vector<CheckpointPart> parts;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    const std::string what = "the part of rank " + std::to_string(rank);
    STOKER_ASSIGN(CheckpointPart part, parse_checkpoint_part(messages[rank].part, what));
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace

PartMessage SaveWorker::placed_part(const SaveJob& job, const Result<WrittenPart>& written) {
  const std::uint32_t rank = parts_.coordinator.rank();
  const bool reports = rank != 0 && leads_place(job.places, rank);
  PartMessage own{.failure = written.status()};
  if (!written.ok()) {
    if (reports) own.failure = parts_.leader->explain(job, written.status());
    return own;
  }
  own.failure = with_memory([&]() -> Status {
    own.part = format_checkpoint_part(written->part);
    if (!reports) return {};
    STOKER_ASSIGN(own.generation, parts_.leader->used_generation());
    return {};
  });
  own.failure = own.failure.with_context("rank " + std::to_string(rank));
  return own;
}

/// On rank 0: hears what the other places have.
Result<std::vector<PlaceReport>> SaveWorker::hear_reports(const SaveJob& job) {
  const std::string context = "it is committed, but retention failed";
  const Result<std::vector<std::string>> texts =
      parts_.coordinator.gather(key_of("places", job), "", job.deadline);
  if (!texts.ok()) return texts.status().with_context(context);
  std::vector<PlaceReport> reports;
  for (std::uint32_t rank = 1; rank < texts->size(); ++rank) {
    if (!leads_place(job.places, rank)) continue;
    Result<PlaceReport> report = parse_place_report((*texts)[rank]);
    if (!report.ok()) return report.status().with_context(context);
    report->failure = report->failure.with_context("rank " + std::to_string(rank));
    reports.push_back(*std::move(report));
  }
  return reports;
}

EndMessage SaveWorker::lead_places(SaveJob& job, const Result<WrittenPart>& written) {
  std::string text;
  const Result<SaveLeader::MadeManifest> made =
      with_memory([&]() -> Result<SaveLeader::MadeManifest> {
        STOKER_ASSIGN(const std::vector<PartMessage> heard,
                      hear_parts(job, placed_part(job, written)));
        STOKER_ASSIGN(std::vector<CheckpointPart> parts, parts_of(heard));
        const std::uint64_t used = std::ranges::max(heard, {}, &PartMessage::generation).generation;
        STOKER_ASSIGN(SaveLeader::MadeManifest merged,
                      parts_.leader->merge(job, std::move(parts), used));
        text = format_message(ManifestMessage{.manifest = merged.text});
        return merged;
      });
  const Status failure = parts_.leader->explain(job, made.status());
  if (!made.ok()) text = format_message(ManifestMessage{.failure = failure});
  const Status told =
      parts_.coordinator.broadcast(key_of("manifest", job), text, job.deadline).status();
  if (!made.ok()) {
    parts_.leader->discard(job);
    return {.outcome = SaveOutcome::failed, .failure = failure};
  }
  PlaceRounds rounds(parts_.coordinator, job.number, job.deadline);
  if (!told.ok()) {  // the others may have it all the same
    rounds.finish(told);
    parts_.leader->discard(job);
    return {.outcome = rounds.outcome(), .failure = told};
  }
  EndMessage end = parts_.leader->commit_place(job, *made, rounds);
  if (rounds.is_sealed()) parts_.coordinator.withdraw(key_of("manifest", job));  // all have it
  if (rounds.is_durable() && end.failure.ok()) {
    end.failure = with_memory([&]() -> Status {
      STOKER_ASSIGN(const std::vector<PlaceReport> reports, hear_reports(job));
      parts_.leader->choose_kept(reports, end);
      STOKER_TRY(end.failure);
      return parts_.leader->retire_others(end);
    });
  }
  static_cast<void>(
      parts_.coordinator.broadcast(key_of("end", job), format_message(end), job.deadline));
  return end;
}

EndMessage SaveWorker::follow_places(SaveJob& job, const Result<WrittenPart>& written) {
  const bool leads = leads_place(job.places, parts_.coordinator.rank());
  const PartMessage own = placed_part(job, written);
  const Result<ManifestMessage> told = with_memory([&]() -> Result<ManifestMessage> {
    STOKER_TRY(
        parts_.coordinator.gather(key_of("part", job), format_message(own), job.deadline).status());
    STOKER_ASSIGN(const std::string text,
                  parts_.coordinator.broadcast(key_of("manifest", job), "", job.deadline));
    return parse_manifest_message(text);
  });
  PlaceRounds rounds(parts_.coordinator, job.number, job.deadline);
  if (!told.ok() || !told->failure.ok()) {
    // Without an answer no place has published it, because this rank has not said that it is
    // sealed.
    if (!told.ok()) rounds.refuse(told.status());
    if (leads) {
      parts_.leader->let_go_if_fenced();
      parts_.leader->discard(job);
    }
    return {.outcome = SaveOutcome::failed, .failure = told.ok() ? told->failure : told.status()};
  }
  Result<CheckpointManifest> manifest = with_memory(
      [&] { return parse_checkpoint_manifest(told->manifest, "the manifest of rank 0"); });
  EndMessage end;
  if (leads && manifest.ok()) {
    end = parts_.leader->commit_place(
        job, {.manifest = *std::move(manifest), .text = told->manifest}, rounds);
  } else {
    rounds.finish(manifest.status());
    if (leads) parts_.leader->discard(job);
    end = {.outcome = rounds.outcome(), .failure = rounds.failure()};
    if (manifest.ok()) end.generation = manifest->generation;
    if (manifest.ok()) end.line = manifest->line;
  }
  if (!rounds.is_durable()) return end;
  PlaceReport report;
  const Status listed = with_memory([&]() -> Status {
    if (leads) report = parts_.leader->report();
    return {};
  });
  if (!listed.ok()) report = {.failure = listed};
  static_cast<void>(
      parts_.coordinator.gather(key_of("places", job), format_message(report), job.deadline));
  // All places have it: without an answer of rank 0 only retention is left to the next save.
  const Result<std::string> text =
      parts_.coordinator.broadcast(key_of("end", job), "", job.deadline);
  if (!text.ok()) return end;
  const Result<EndMessage> last = parse_end_message(*text);
  if (!last.ok()) return end;
  if (end.failure.ok()) end.failure = last->failure;
  if (leads && end.failure.ok()) end.failure = parts_.leader->retire_others(*last);
  return end;
}

}  // namespace stoker
