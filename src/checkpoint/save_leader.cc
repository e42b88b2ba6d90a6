#include "checkpoint/save_leader.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "checkpoint/give_up.h"
#include "checkpoint/names.h"
#include "checkpoint/text_file.h"
#include "checkpoint/tree_removal.h"
#include "io/filesystem.h"

namespace stoker {
namespace {

constexpr std::size_t kPartBytesMax = std::size_t{1} << 30;

double wall_time_s() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

std::string rank_text(std::size_t rank) {
  return "rank " + std::to_string(rank);
}

}  // namespace

Status SaveLeader::ready() {
  if (lock_ != nullptr) return {};
  STOKER_TRY(make_directories(ops_, options_.directory));
  LockOptions options = options_.lock;
  if (options.token.empty()) options.token = coordinator_.lock_token();
  STOKER_ASSIGN(lock_, WriterLock::acquire(ops_, options_.directory, options));
  return {};
}

std::optional<CheckpointParent> SaveLeader::head() const {
  MutexLock lock(mutex_);
  return head_;
}

Status SaveLeader::check(std::span<const BeginMessage> messages, const SavesInFlight& in_flight) {
  const std::uint64_t step = messages.front().step;
  std::uint64_t size_bytes = 0;
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].step != step)
      return Status(Code::invalid_argument, rank_text(rank) + " saves step " +
                                                std::to_string(messages[rank].step) +
                                                " while rank 0 saves step " + std::to_string(step));
    size_bytes += messages[rank].size_bytes;
  }
  Status exists(Code::already_exists, "step " + std::to_string(step) +
                                          " was saved by this run already: " + options_.directory +
                                          "/" + step_name(step));
  if (std::ranges::find(in_flight.steps, step) != in_flight.steps.end()) return exists;
  STOKER_TRY(checked_.refresh());
  const History::Entry* present = checked_.find(step);
  if (present != nullptr && checked_.is_ancestor(*present, head())) return exists;
  // Where nobody can say how much is free, the disk will.
  const Result<std::uint64_t> free = options_.free_bytes ? options_.free_bytes(options_.directory)
                                                         : free_bytes_of(options_.directory);
  if (!free.ok() || *free >= size_bytes + in_flight.unreserved_bytes) return {};
  std::string text = options_.directory + ": a checkpoint of " + std::to_string(size_bytes) +
                     " bytes does not fit into " + std::to_string(*free) + " free ones";
  if (in_flight.unreserved_bytes > 0)
    text += ", of which saves before it will take " + std::to_string(in_flight.unreserved_bytes);
  return Status(Code::no_space, std::move(text));
}

Verdict SaveLeader::decide(std::uint64_t number, std::span<const BeginMessage> messages,
                           const SavesInFlight& in_flight) {
  Verdict verdict;
  // An old error first, and it alone: it is raised on every rank, known there already or not.
  for (const BeginMessage& message : messages) {
    if (message.failed_number == 0) continue;
    return {.action = SaveAction::fail,
            .raised_number = message.failed_number,
            .failure = message.failure};
  }
  for (std::size_t rank = 0; rank < messages.size(); ++rank) {
    if (messages[rank].failure.ok()) continue;
    return {.action = SaveAction::fail,
            .failure = messages[rank].failure.with_context(rank_text(rank))};
  }
  const bool is_late = std::any_of(messages.begin(), messages.end(),
                                   [](const BeginMessage& message) { return message.is_late; });
  if (is_late && options_.late == LatePolicy::skip) return {.action = SaveAction::skip};
  if (Status wrong = check(messages, in_flight); !wrong.ok())
    return {.action = SaveAction::fail, .failure = std::move(wrong)};
  if (is_late && options_.late == LatePolicy::replace) {
    const std::uint64_t waiting = messages.front().waiting_number;
    const bool is_everywhere =
        std::all_of(messages.begin(), messages.end(),
                    [&](const BeginMessage& message) { return message.waiting_number == waiting; });
    if (is_everywhere) verdict.replaced_number = waiting;
  }
  verdict.staging = lock_->owner_directory() + "/" + step_name(messages.front().step) + "-" +
                    std::to_string(number);
  return verdict;
}

Result<std::vector<CheckpointPart>> SaveLeader::read_parts(const SaveJob& job,
                                                           const CheckpointPart& own_part) const {
  std::vector<CheckpointPart> parts{own_part};
  for (std::uint32_t rank = 1; rank < coordinator_.world_size(); ++rank) {
    const std::string path = job.directory + "/" + part_name(rank);
    STOKER_ASSIGN(const std::string text, read_text_file(ops_, path, kPartBytesMax));
    STOKER_ASSIGN(CheckpointPart part, parse_checkpoint_part(text, path));
    parts.push_back(std::move(part));
  }
  return parts;
}

Result<CheckpointManifest> SaveLeader::make_manifest(const SaveJob& job,
                                                     const CheckpointPart& own_part) {
  STOKER_ASSIGN(const std::vector<CheckpointPart> parts, read_parts(job, own_part));
  STOKER_TRY(committed_.refresh());
  CheckpointManifest manifest;
  manifest.step = job.request.step;
  const std::optional<CheckpointParent> parent = head();
  // What is continued may be gone, and counts all the same.
  manifest.generation =
      std::max(committed_.greatest_generation(), parent ? parent->generation : 0) + 1;
  manifest.time_s = options_.now_s ? options_.now_s() : wall_time_s();
  manifest.world_size = coordinator_.world_size();
  manifest.reference = job.request.reference;
  manifest.extra_json = job.request.extra_json;
  manifest.cursor_json = job.request.cursor_json;
  manifest.parent = parent;
  manifest.lineage = committed_.lineage_after(parent);
  manifest.tool = options_.tool;
  STOKER_TRY(merge_parts(manifest, parts));
  // What a reader would refuse must not be committed.
  Result<CheckpointManifest> again =
      parse_checkpoint_manifest(format_checkpoint_manifest(manifest), "the new manifest");
  if (!again.ok()) return Status(Code::invalid_argument, std::string(again.status().message()));
  return manifest;
}

EndMessage SaveLeader::commit(const SaveJob& job, const CheckpointPart& own_part) {
  const Result<CheckpointManifest> manifest = make_manifest(job, own_part);
  if (!manifest.ok()) {
    EndMessage end{.outcome = SaveOutcome::failed, .failure = explain(job, manifest.status())};
    discard(job);
    return end;
  }
  const CommitResult result = commit_checkpoint({.ops = ops_,
                                                 .directory = options_.directory,
                                                 .owner = lock_->owner_directory(),
                                                 .staging = job.directory,
                                                 .manifest = *manifest,
                                                 .superseded = committed_.find(manifest->step)});
  EndMessage end{.generation = manifest->generation, .failure = result.status};
  switch (result.stage) {
    case CommitStage::staged:
      end.failure = explain(job, result.status);
      discard(job);
      end.outcome = SaveOutcome::failed;
      end.generation = 0;
      if (lock_->is_lost() || end.failure.code() == Code::not_found)
        end.failure = end.failure.with_context("another writer has taken over this directory");
      return end;
    case CommitStage::visible:
      end.outcome = SaveOutcome::unknown;
      end.failure = result.status.with_context("it has its name, but may lose it in a power cut");
      return end;
    case CommitStage::durable:
      end.failure = result.status.with_context("it is committed, but `latest` did not move");
      break;
    case CommitStage::complete: break;
  }
  end.outcome = SaveOutcome::committed;
  {
    MutexLock lock(mutex_);
    head_ = CheckpointParent{.step = manifest->step, .generation = manifest->generation};
  }
  if (!end.failure.ok()) return end;
  RetentionReport retired = hide_unwanted(ops_, options_.directory, options_.retention);
  hidden_ = std::move(retired.hidden);
  end.failure = retired.failure.with_context("it is committed, but retention failed");
  return end;
}

Status SaveLeader::remove_hidden() {
  Status failure;
  for (const std::string& path : std::exchange(hidden_, {}))
    if (failure.ok()) failure = stoker::remove_hidden(ops_, path);
  return failure.with_context("it is committed, but retention failed");
}

void SaveLeader::release(Deadline deadline) {
  if (lock_ == nullptr) return;
  if (!coordinator_.gather("close", "", deadline).ok()) lock_->leave_staging();
  lock_.reset();
}

void SaveLeader::discard(const SaveJob& job) {
  // Gives the space back now; what resists is swept with its owner.
  static_cast<void>(remove_tree(ops_, job.directory));
  static_cast<void>(remove_tree(ops_, given_up_name(job.directory)));
}

Status SaveLeader::explain(const SaveJob& job, const Status& failure) const {
  if (failure.code() != Code::not_found || !is_given_up(ops_, job.directory)) return failure;
  return Status(Code::unavailable,
                "a rank has given this save up, because rank 0 had not committed it in time: " +
                    std::string(failure.message()));
}

}  // namespace stoker
