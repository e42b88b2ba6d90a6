#include "checkpoint/save/saver_core.h"

#include <algorithm>
#include <cerrno>
#include <new>
#include <system_error>
#include <utility>

#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

constexpr std::uint64_t kBurstBytes = 2 * kCheckpointChunkBytes;
/// How long rank 0 waits for the other ranks when it closes, and they for rank 0.
constexpr nanoseconds kFarewell = std::chrono::seconds(10);
constexpr std::size_t kFailuresKept = 16;

}  // namespace

CheckpointSaver::Core::Core(SaverOptions options)
    : options_(std::move(options)),
      caller_ops_(*options_.ops),
      writer_ops_(*options_.ops),
      coordinator_(*options_.coordinator),
      limiter_(options_.rate_limit_bytes_per_s, kBurstBytes),
      memory_(options_.memory_bytes, options_.staging_arena),
      learned_(options_.group_limits),
      rounds_(coordinator_),
      sharing_(coordinator_.rank(), coordinator_.world_size()) {
  if (coordinator_.rank() == 0 || options_.has_private_disks)
    leader_ = std::make_unique<SaveLeader>(options_, coordinator_, caller_ops_, writer_ops_);
}

CheckpointSaver::Core::~Core() {
  close();
}

void CheckpointSaver::Core::close() {
  if (std::exchange(is_closed_, true)) return;
  static_cast<void>(await_idle(Deadline::max()));
  writer_.request_stop();
  if (writer_.joinable()) writer_.join();
  // A failure cannot be reported; the next writer then sweeps what is left.
  const Deadline deadline = deadline_after(std::min<nanoseconds>(options_.deadline, kFarewell));
  // Rank 0 waits for the other ranks, which still read its last message.
  if (rounds_.has_begun()) static_cast<void>(coordinator_.gather("close", "", deadline));
  if (leader_ != nullptr) leader_->release();
}

Status CheckpointSaver::Core::start() {
  try {
    writer_ = std::jthread([this](std::stop_token stop) { run(stop); });
  } catch (const std::system_error& error) {
    return Status(Code::unavailable,
                  std::string("cannot start the writer thread: ") + error.what());
  }
  return {};
}

void CheckpointSaver::Core::note(Failure failure) {
  forget_reported();
  failures_.push_back(std::move(failure));
  // Errors after a commit stay until wait() or close(), so the number must be limited.
  if (failures_.size() > kFailuresKept) failures_.pop_front();
}

void CheckpointSaver::Core::forget_reported() {
  std::erase_if(failures_, [](const Failure& failure) {
    return failure.pending != nullptr && failure.pending->is_reported();
  });
}

Result<PendingSave> CheckpointSaver::Core::save(SaveRequest request) {
  auto job = std::make_shared<SaveJob>();
  job->deadline = deadline_after(request.deadline.value_or(options_.deadline));
  job->request = std::move(request);
  job->pending = std::make_shared<PendingState>(job->request.step);
  job->device_deadline = answer_deadline(job->deadline, coordinator_.world_size());
  // The other ranks get a refusal in agree_and_plan().
  if (job->request.refusal.ok()) job->request.refusal = replaced_.check();
  if (job->request.refusal.ok())
    job->request.refusal = job->unless_no_memory([&] {
      return options_.copier->begin(job->request.tensors, job->request.devices,
                                    job->device_deadline);
    });
  const std::string context = "save step " + std::to_string(job->request.step);
  if (coordinator_.world_size() > 1) job->keys = piece_keys(job->request.tensors);
  const Result<Verdict> verdict = agree_in_time(*job);
  settle(verdict.ok() ? *verdict : Verdict(), job->deadline);
  if (!verdict.ok()) return verdict.status().with_context(context);
  switch (verdict->action) {
    case SaveAction::skip:
      job->pending->set_released();
      job->pending->finish(SaveOutcome::skipped, Status());
      return PendingSave(job->pending);
    case SaveAction::fail:
    case SaveAction::fail_behind:
      // The error of an earlier save names its own step.
      return verdict->raised_number != 0 ? verdict->failure
                                         : verdict->failure.with_context(context);
    case SaveAction::go:
    case SaveAction::count:
    case SaveAction::lock_places:
    case SaveAction::make_room: break;
  }
  job->staging_name = verdict->staging;
  if (!job->places.empty())
    job->staging_name = owner_name(verdict->tokens.at(job->places.at(coordinator_.rank()))) +
                        job->staging_name.substr(job->staging_name.find('/'));
  return enter(job);
}

bool CheckpointSaver::Core::await_idle(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!in_flight_.empty() || is_removing_) {
    if (!changed_.wait_until(mutex_, deadline)) return in_flight_.empty() && !is_removing_;
  }
  return true;
}

Status CheckpointSaver::Core::take_error() {
  MutexLock lock(mutex_);
  forget_reported();
  Status error = failures_.empty() ? Status() : std::move(failures_.back().error);
  failures_.clear();
  return error;
}

Status CheckpointSaver::Core::wait(Deadline deadline) {
  const bool is_idle = await_idle(deadline);
  Status error = take_error();
  if (error.ok() && !is_idle) error = Status(Code::unavailable, "wait: a save is still in flight");
  return error;
}

SaveProgress CheckpointSaver::Core::progress() const {
  Job job;
  SaveProgress progress;
  {
    MutexLock lock(mutex_);
    progress.in_flight = static_cast<std::uint32_t>(in_flight_.size());
    if (!in_flight_.empty()) job = in_flight_.front();
  }
  if (job == nullptr) return progress;
  progress.stage = job->stage.load(std::memory_order_relaxed);
  progress.step = job->request.step;
  progress.size_bytes = job->layout.size_bytes();
  progress.staged_bytes = job->staging == nullptr ? 0 : job->staging->filled_bytes();
  progress.written_bytes = job->written_bytes.load(std::memory_order_relaxed);
  return progress;
}

void CheckpointSaver::Core::run(std::stop_token stop) {
  const std::stop_callback wake(stop, [this] {
    {
      MutexLock lock(mutex_);
    }
    changed_.notify_all();
  });
  SaveWorker worker({.options = options_,
                     .ops = writer_ops_,
                     .coordinator = coordinator_,
                     .leader = leader_.get(),
                     .memory = memory_,
                     .learned = learned_,
                     .limiter = options_.rate_limit_bytes_per_s > 0 ? &limiter_ : nullptr,
                     .reservation_changed = [this] {
                       {
                         MutexLock lock(mutex_);
                       }
                       changed_.notify_all();
                     }});
  while (const Job job = next_job(stop)) {
    const EndMessage end = work(worker, job);
    finish(job, end);
    if (end.outcome == SaveOutcome::committed) writer_ops_.reached("checkpoint.acknowledged");
    remove_condemned(*job);
  }
}

/// Turns std::bad_alloc into a failed save where the worker itself does not.
EndMessage CheckpointSaver::Core::work(SaveWorker& worker, const Job& job) {
  try {
    return worker.run(job, *fills_);
  } catch (const std::bad_alloc&) {
    return {.outcome = SaveOutcome::unknown, .failure = Status::from_errno(ENOMEM, "save", "")};
  }
}

CheckpointSaver::Core::Job CheckpointSaver::Core::next_job(const std::stop_token& stop) {
  MutexLock lock(mutex_);
  while ((queue_.empty() || is_held_) && !stop.stop_requested()) changed_.wait(mutex_);
  if (stop.stop_requested()) return nullptr;
  Job job = queue_.front();
  queue_.pop_front();
  return job;
}

void CheckpointSaver::Core::finish(const Job& job, const EndMessage& end) {
  const Status error = end.failure.with_context("save step " + std::to_string(job->request.step));
  {
    MutexLock lock(mutex_);
    std::erase(in_flight_, job);
    if (end.outcome != SaveOutcome::committed) sharing_.forget();
    if (!error.ok() && job->number > raised_number_)
      note({.number = job->number,
            .error = error,
            .is_behind_commit = end.outcome == SaveOutcome::committed,
            .pending = job->pending});
    // Under the lock: a thread that sees no save in flight finds every PendingSave done, and vice
    // versa.
    job->pending->finish(end.outcome, error, end.generation, end.line);
    is_removing_ = leader_ != nullptr && leader_->has_condemned();
  }
  changed_.notify_all();
}

void CheckpointSaver::Core::remove_condemned(const SaveJob& job) {
  if (leader_ == nullptr || !leader_->has_condemned()) return;
  Status error;
  try {
    error =
        leader_->remove_condemned().with_context("save step " + std::to_string(job.request.step));
  } catch (const std::bad_alloc&) {
    error = Status::from_errno(ENOMEM, "remove checkpoints", "");
  }
  {
    MutexLock lock(mutex_);
    is_removing_ = false;
    if (!error.ok())
      note({.number = job.number, .error = error, .is_behind_commit = true, .pending = nullptr});
  }
  changed_.notify_all();
}

}  // namespace stoker
