#include "checkpoint/save/save_leader.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <utility>

#include "base/token.h"
#include "checkpoint/catalog/step_removal.h"
#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "checkpoint/save/save_rounds.h"

namespace stoker {
namespace {

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string rank_text(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

/// Adds what to do on a full disk, unless the message says it.
Status with_cure(const Status& failure) {
  const std::string message(failure.message());
  if (message.find("rm -rf") != std::string::npos) return failure;
  return Status(failure.code(),
                message +
                    ". Remove old checkpoints (stoker checkpoint prune; on a completely full disk "
                    "rm -rf DIR/step-N, while no run writes), keep fewer (keep_last=), or use "
                    "another disk",
                failure.os_error());
}

}  // namespace

std::shared_ptr<SaveLeader::Held> SaveLeader::held() const {
  MutexLock lock(mutex_);
  return held_;
}

Result<std::unique_ptr<StoreLock>> SaveLeader::take_lock(const CheckpointStore& store,
                                                         Deadline deadline) const {
  const nanoseconds limit = time_left(answer_deadline(deadline, coordinator_.world_size()));
  LockOptions lock = options_.lock;
  const bool is_limited = limit < lock.timeout;
  if (is_limited) lock.timeout = limit;
  Result<std::unique_ptr<StoreLock>> taken = store.lock(lock);
  if (taken.ok() || !is_limited || taken.status().code() != Code::unavailable) return taken;
  return Status(Code::unavailable, std::string(taken.status().message()) +
                                       ". The deadline of this save has ended the wait; the next "
                                       "save tries again");
}

Status SaveLeader::ready(bool is_idle, Deadline deadline) {
  if (const std::shared_ptr<Held> held = this->held()) {
    if (held->stores.caller->is_where_it_was()) return {};
    if (!is_idle)
      return Status(
          Code::unavailable,
          options_.directory + ": was moved or replaced while saves to it were in flight");
    let_go();
  }
  STOKER_ASSIGN(SaveStores stores, make_save_stores(options_, caller_ops_, writer_ops_));
  STOKER_ASSIGN(std::unique_ptr<StoreLock> lock, take_lock(*stores.caller, deadline));
  std::unique_ptr<CheckpointWriter> writer = stores.writer->make_writer(*lock);
  auto made =
      std::make_shared<Held>(Held{.stores = stores,
                                  .lock = std::move(lock),
                                  .line = options_.line.empty() ? make_token() : options_.line,
                                  .writer = std::move(writer),
                                  .checked = History(StoreHandle(stores.caller)),
                                  .committed = History(StoreHandle(stores.writer)),
                                  .notes = NotesReader(StoreHandle(stores.writer))});
  MutexLock guard(mutex_);
  held_ = std::move(made);
  return {};
}

std::string SaveLeader::token() const {
  const std::shared_ptr<Held> held = this->held();
  return held == nullptr ? std::string() : held->lock->token();
}

std::optional<CheckpointParent> SaveLeader::head() const {
  MutexLock lock(mutex_);
  return head_;
}

Status check_space(const std::string& where, std::uint64_t new_bytes,
                   std::uint64_t unreserved_bytes, std::uint64_t free_bytes) {
  if (free_bytes >= new_bytes + unreserved_bytes) return {};
  std::string text = where + ": a checkpoint of " + std::to_string(new_bytes) +
                     " bytes needs more space than is free: " + std::to_string(free_bytes) +
                     " bytes";
  if (unreserved_bytes > 0)
    text += ", of which earlier saves will take " + std::to_string(unreserved_bytes);
  return with_cure(Status(Code::no_space, std::move(text)));
}

Status SaveLeader::check(std::span<const BeginMessage> messages, const SavesInFlight& in_flight,
                         std::uint64_t new_bytes, Held& held) {
  const std::uint64_t step = messages.front().step;
  Status exists(
      Code::already_exists,
      "step " + std::to_string(step) + " already exists in " + options_.directory +
          ", saved by this run or by the one that it continues, and a step is saved once: skip "
          "this save (`due` is false for a step that was just saved; `latest` is the newest), or "
          "restore an older checkpoint first");
  if (std::ranges::find(in_flight.steps, step) != in_flight.steps.end()) return exists;
  if (held.stores.caller->find_step(step_name(step)).status().code() != Code::not_found) {
    STOKER_TRY(held.checked.refresh());
    const CatalogStep* present = held.checked.find(step);
    if (present != nullptr && held.checked.is_ancestor(*present, head())) return exists;
  }
  if (!std::ranges::all_of(messages, [&](const BeginMessage& message) {
        return message.place == messages.front().place;
      }))
    return {};
  // If the free space is unknown, the write itself will fail when the disk is full.
  const Result<std::uint64_t> free = options_.free_bytes ? options_.free_bytes(options_.directory)
                                                         : held.stores.caller->free_bytes();
  if (!free.ok()) return {};
  return check_space(options_.directory, new_bytes, in_flight.unreserved_bytes, *free);
}

Verdict SaveLeader::decide(std::uint64_t number, std::span<const BeginMessage> messages,
                           const SavesInFlight& in_flight, std::uint64_t new_bytes) {
  Verdict verdict;
  // An error of an earlier save comes first: it is reported on every rank, even if already known.
  for (const BeginMessage& message : messages) {
    if (message.failed_number == 0) continue;
    return {.action = SaveAction::fail,
            .raised_number = message.failed_number,
            .failure = message.failure};
  }
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].failure.ok()) continue;
    const Status& failure = messages[rank].failure;
    return {.action = SaveAction::fail,
            .failure = messages.size() > 1 ? failure.with_context(rank_text(rank)) : failure};
  }
  const bool is_late = std::any_of(messages.begin(), messages.end(),
                                   [](const BeginMessage& message) { return message.is_late; });
  if (is_late && options_.late == LatePolicy::skip) return {.action = SaveAction::skip};
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr)  // fenced since ready(): the next save takes the lock again
    return {.action = SaveAction::fail,
            .failure = Status(Code::unavailable, "another writer has just taken over")};
  if (Status wrong = check(messages, in_flight, new_bytes, *held); !wrong.ok())
    return {.action = SaveAction::fail, .failure = std::move(wrong)};
  if (is_late && options_.late == LatePolicy::replace) {
    const std::uint64_t waiting = messages.front().waiting_number;
    const bool is_everywhere =
        std::all_of(messages.begin(), messages.end(),
                    [&](const BeginMessage& message) { return message.waiting_number == waiting; });
    if (is_everywhere) verdict.replaced_number = waiting;
  }
  verdict.staging = held->writer->staging_name(messages.front().step, number);
  return verdict;
}

Result<std::vector<CheckpointPart>> SaveLeader::read_parts(const SaveJob& job,
                                                           const CheckpointPart& own_part,
                                                           const Held& held) const {
  std::vector<CheckpointPart> parts{own_part};
  for (std::uint32_t rank = 1; rank < coordinator_.world_size(); ++rank) {
    STOKER_ASSIGN(CheckpointPart part, held.stores.writer->read_part(job.staging_name, rank));
    parts.push_back(std::move(part));
  }
  return parts;
}

// Returns a generation greater than that of every known checkpoint, existing or removed: the parent
// may be gone, and so may a checkpoint that has a note, which must not apply to a new one. Notes
// that cannot be read are skipped here; retention treats them as pins. While the lock is held only
// this function assigns generations, so notes are read once.
Result<std::uint64_t> SaveLeader::next_generation(Held& held) const {
  STOKER_TRY(held.committed.refresh());
  if (!std::exchange(held.has_numbered, true)) {
    const Result<AllNotes> notes = held.notes.read();
    if (notes.ok()) held.committed.learn_generation(notes->greatest_generation());
  }
  const std::optional<CheckpointParent> parent = head();
  if (parent) held.committed.learn_generation(parent->generation);
  const std::uint64_t generation = held.committed.greatest_generation() + 1;
  if (generation <= kGenerationMax) return generation;
  return Status(Code::invalid_argument,
                options_.directory +
                    ": a checkpoint or a note has the largest possible generation; move it away "
                    "(`stoker checkpoint ls` shows generations)");
}

Result<SaveLeader::MadeManifest> SaveLeader::make_manifest(const SaveJob& job,
                                                           std::vector<CheckpointPart> parts,
                                                           Held& held) {
  CheckpointManifest manifest;
  for (const std::string& host : job.hosts) manifest.places.push_back({.host = host, .ranks = {}});
  for (std::uint32_t rank = 0; rank < job.places.size(); ++rank)
    manifest.places.at(job.places[rank]).ranks.push_back(rank);
  manifest.step = job.request.step;
  STOKER_ASSIGN(manifest.generation, next_generation(held));
  manifest.line = held.line;
  std::optional<CheckpointParent> parent = head();
  if (parent) parent = held.committed.with_line(*std::move(parent));
  manifest.time_s = options_.now_s ? options_.now_s() : wall_time_s();
  manifest.world_size = coordinator_.world_size();
  manifest.reference = job.request.reference;
  manifest.extra_json = job.request.extra_json;
  manifest.cursor_json = job.request.cursor_json;
  manifest.parent = parent;
  manifest.lineage = held.committed.lineage_after(parent);
  manifest.tool = options_.tool;
  STOKER_TRY(merge_parts(manifest, std::move(parts)));
  // Never commit a manifest that a reader would reject.
  std::string text = format_checkpoint_manifest(manifest);
  const Status again = parse_checkpoint_manifest(text, "the new manifest").status();
  if (!again.ok()) return Status(Code::invalid_argument, std::string(again.message()));
  STOKER_TRY(check_no_gaps(manifest));
  return MadeManifest{.manifest = std::move(manifest), .text = std::move(text)};
}

EndMessage SaveLeader::commit(const SaveJob& job, const CheckpointPart& own_part) {
  const std::shared_ptr<Held> held = this->held();
  const Result<MadeManifest> made = [&]() -> Result<MadeManifest> {
    if (held == nullptr) return not_held();
    STOKER_ASSIGN(std::vector<CheckpointPart> parts, read_parts(job, own_part, *held));
    return make_manifest(job, std::move(parts), *held);
  }();
  if (!made.ok()) return fail_staged(job, made.status());
  return commit_made(job, *made, *held);
}

EndMessage SaveLeader::fail_staged(const SaveJob& job, const Status& failure) {
  EndMessage end{.outcome = SaveOutcome::failed, .failure = explain(job, failure)};
  discard(job);
  return end;
}

void SaveLeader::move_head(const CheckpointManifest& manifest) {
  MutexLock lock(mutex_);
  head_ = CheckpointParent{
      .step = manifest.step, .generation = manifest.generation, .line = manifest.line};
}

EndMessage SaveLeader::commit_made(const SaveJob& job, const MadeManifest& made, Held& held) {
  const CheckpointManifest& manifest = made.manifest;
  EndMessage end{.generation = manifest.generation, .line = manifest.line};
  CommitStage stage = CommitStage::staged;
  const CatalogStep* const present = held.committed.find(manifest.step);
  try {
    end.failure = held.writer->commit(
        {.staging = job.staging_name,
         .manifest = manifest,
         .manifest_text = made.text,
         .superseded = present == nullptr ? std::nullopt : std::optional(present->generation)},
        stage);
  } catch (const std::bad_alloc&) {
    end.failure = Status::from_errno(ENOMEM, "commit", step_name(manifest.step));
  }
  switch (stage) {
    case CommitStage::staged: return fail_staged(job, end.failure);
    case CommitStage::visible:
      end.outcome = SaveOutcome::unknown;
      end.failure = end.failure.with_context(
          "the checkpoint may be visible, but may not survive a power loss");
      return end;
    case CommitStage::durable:
      end.failure = explain_behind_commit(end.failure, "`latest` did not move", held);
      break;
    case CommitStage::complete: break;
  }
  end.outcome = SaveOutcome::committed;
  move_head(manifest);
  if (!end.failure.ok()) return end;
  try {
    retention_.family = continue_lineage(manifest.lineage, manifest.line, manifest.generation);
    const bool is_known = add_to_catalog(manifest, held);
    if (!is_known || !keeps_all(held)) {
      RetentionReport retired =
          retire_unwanted(*held.writer, retention_, held.committed.reader(), held.notes);
      condemned_ = std::move(retired.condemned);
      end.failure = retired.failure;
    }
  } catch (const std::bad_alloc&) {
    end.failure = Status::from_errno(ENOMEM, "retire checkpoints", "");
  }
  end.failure = explain_behind_commit(end.failure, "retention failed", held);
  return end;
}

Status SaveLeader::explain_behind_commit(const Status& failure, const char* what, Held& held) {
  const std::string context = std::string("it is committed, but ") + what;
  if (!is_gone(failure)) return failure.with_context(context);
  const std::optional<std::string> successor = held.lock->find_successor();
  if (!successor) return failure.with_context(context);
  let_go();  // the next save takes the lock again
  return Status(Code::unavailable, context + ": another writer has taken over " +
                                       options_.directory + ": " + *successor);
}

/// Whether retention would keep every known checkpoint. Uses what is known, without listing the
/// store: an outdated answer removes nothing.
bool SaveLeader::keeps_all(Held& held) const {
  if (retention_.keep_all()) return true;
  const Result<AllNotes> notes = held.notes.read();
  return notes.ok() && choose_removals(held.committed.catalog(), *notes, retention_).empty();
}

bool SaveLeader::add_to_catalog(const CheckpointManifest& manifest, Held& held) {
  CatalogLine line{.name = step_name(manifest.step), .summary = summarize(manifest)};
  const Result<FileInfo> info = held.stores.writer->find_manifest(line.name);
  if (!info.ok()) return false;
  line.inode = info->inode;
  line.size_bytes = info->size_bytes;
  line.modified_ns = info->modified_ns;
  const bool is_known = held.committed.add(line).ok();
  // The first commit of this writer writes all it has read to a new file. Later the file is
  // rewritten when most of its lines are of removed checkpoints, because readers read all of it.
  constexpr std::size_t kAddedMin = 64;
  const bool is_long = ++held.catalog_added > kAddedMin + 2 * held.committed.catalog().steps.size();
  if (held.catalog != nullptr && !is_long) {
    held.catalog->add(line);
  } else {
    held.catalog.reset();
    held.catalog = held.writer->start_catalog(held.committed.reader().lines());
    held.catalog_added = 0;
  }
  return is_known;
}

Status SaveLeader::remove_condemned() {
  const std::shared_ptr<Held> held = this->held();
  Status failure;
  for (const std::string& name : std::exchange(condemned_, {})) {
    if (held == nullptr) break;
    const Status removed = held->writer->remove(name);  // a failure does not stop the others
    if (failure.ok()) failure = removed;
  }
  return failure.with_context("it is committed, but retention failed");
}

void SaveLeader::let_go() {
  // Destroyed after mutex_ is released, because that releases the lock of the directory.
  std::shared_ptr<Held> held;
  MutexLock lock(mutex_);
  held.swap(held_);
}

void SaveLeader::let_go_if_fenced() {
  const std::shared_ptr<Held> held = this->held();
  if (held != nullptr && !held->writer->is_owner()) let_go();
}

void SaveLeader::discard(const SaveJob& job) {
  const std::shared_ptr<Held> held = this->held();
  if (held == nullptr) return;
  held->writer->discard_staged(job.staging_name);  // frees the space now
}

Status SaveLeader::explain(const SaveJob& job, const Status& failure) {
  if (failure.code() == Code::no_space) return with_cure(failure);
  const std::shared_ptr<Held> held = this->held();
  if (failure.code() != Code::not_found || held == nullptr) return failure;
  if (held->stores.writer->is_abandoned(job.staging_name))
    return Status(Code::unavailable,
                  "a rank has abandoned this save, because rank 0 did not commit it in time: " +
                      std::string(failure.message()));
  const std::optional<std::string> successor = held->lock->find_successor();
  if (!successor && held->writer->is_owner()) return failure;
  let_go();  // the next save takes the lock again
  return Status(Code::unavailable, "another writer has taken over " + options_.directory + ": " +
                                       successor.value_or("unknown writer") +
                                       "; nothing of this save was committed");
}

}  // namespace stoker
