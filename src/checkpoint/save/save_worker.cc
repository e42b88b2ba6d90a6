#include "checkpoint/save/save_worker.h"

#include <cerrno>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "checkpoint/manifest/names.h"
#include "checkpoint/save/abandon_save.h"
#include "checkpoint/save/save_store.h"

namespace stoker {
namespace {

constexpr std::uint32_t kDepth = 8;

std::string key_of(const char* round, const SaveJob& job) {
  return std::string(round) + "-" + std::to_string(job.number);
}

}  // namespace

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
  if (Status begun = begin(job); !begun.ok()) {
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
  return written.status().with_context("rank " + std::to_string(job.layout.rank));
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

void SaveWorker::give_memory_back(SaveJob& job) {
  if (just_stuck_ == nullptr) {
    parts_.memory.give_back(std::move(job.arena));
    return;
  }
  just_stuck_->arena = std::move(job.arena);
  stuck_.keep(std::move(just_stuck_));
}

EndMessage SaveWorker::run(SaveJob& job, const std::function<void()>& await_filled) {
  job.stage.store(SaveStage::writing, std::memory_order_relaxed);
  Result<WrittenPart> written = write_or_fail(job);
  await_filled();
  give_memory_back(job);
  job.stage.store(SaveStage::committing, std::memory_order_relaxed);
  if (written.ok() && parts_.options.dedup)
    parts_.learned.record(job.layout, job.stored, written->scans);
  EndMessage end = parts_.leader != nullptr ? lead(job, written) : follow(job, written);
  if (end.outcome == SaveOutcome::committed && written.ok())
    parts_.learned.set_parent(
        std::make_shared<LinkParent>(LinkParent{.step = step_name(job.request.step),
                                                .files = std::move(written->part.files),
                                                .infos = std::move(written->infos)}));
  return end;
}

EndMessage SaveWorker::lead(SaveJob& job, const Result<WrittenPart>& written) {
  const PartMessage own{.failure = written.status()};
  const Result<std::vector<std::string>> texts =
      parts_.coordinator.gather(key_of("part", job), format_message(own), job.deadline);
  Status failure = written.status();
  if (!texts.ok() && failure.ok()) failure = texts.status();
  for (std::size_t rank = 1; texts.ok() && failure.ok() && rank < texts->size(); ++rank) {
    const Result<PartMessage> heard = parse_part_message((*texts)[rank]);
    failure = (heard.ok() ? heard->failure : heard.status());
    // Errors of write() name the rank; earlier ones do not.
    const std::string name = "rank " + std::to_string(rank);
    if (failure.message().find(name) == std::string_view::npos)
      failure = failure.with_context(name);
  }
  // Other ranks may have given up by now. A single rank commits even after the deadline.
  if (failure.ok() && parts_.coordinator.world_size() > 1 && Clock::now() >= job.deadline)
    failure = Status(Code::unavailable, "rank 0 did not hear from all ranks before the deadline");
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

}  // namespace stoker
