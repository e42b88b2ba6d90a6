// From the tensors to staging memory, on the thread of the caller and those that it leaves behind.
#include <atomic>
#include <exception>
#include <new>
#include <system_error>
#include <utility>

#include "checkpoint/save/saver_core.h"

namespace stoker {
namespace {

/// A copy that returns an error or throws fails the save: its chunks are never complete.
template <typename Copy>
void copy_or_fail(SaveJob& job, const Copy& copy) {
  Status copied;
  try {
    copied = copy();
  } catch (const std::bad_alloc&) {
    copied = job.no_memory;
  } catch (const std::exception& error) {
    copied = Status(Code::unavailable, std::string("copy a checkpoint: ") + error.what());
  }
  if (!copied.ok()) job.staging->fail(std::move(copied));
}

}  // namespace

/// Leaves it to a thread to wait for devices that have not answered in time; waits if there is
/// none.
void CheckpointSaver::Core::await_late(const CopyRest& late) {
  struct Waiter {
    std::atomic<bool> is_over = false;
    std::jthread thread;
  };
  try {
    const auto waiter = std::make_shared<Waiter>();
    auto stuck = std::make_unique<StuckWrite>();
    stuck->filling = waiter;
    stuck->is_filled = [one = waiter.get()] { return one->is_over.load(); };
    waiter->thread = std::jthread(
        [rest = CopyRest(late), copier = options_.copier, one = waiter.get()]() mutable {
          static_cast<void>(rest());
          rest = {};
          one->is_over.store(true);
        });
    replaced_.keep(std::move(stuck));
    return;
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread can be started
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  static_cast<void>(late());
}

Status CheckpointSaver::Core::count(SaveJob& job) {
  CopyRest late;
  const Status counted = count_pieces(job, *options_.copier, late);
  if (late) await_late(late);
  return counted;
}

Status CheckpointSaver::Core::hash_held(SaveJob& job) {
  CopyRest late;
  const Status hashed = hash_copies(job, *options_.copier, late);
  if (late) await_late(late);
  return hashed;
}

Status CheckpointSaver::Core::stage(const Job& job) {
  STOKER_TRY(job->failure);
  {
    MutexLock lock(mutex_);
    while (in_flight_.size() >= options_.in_flight) {
      if (!changed_.wait_until(mutex_, job->deadline))
        return Status(Code::unavailable, "earlier saves did not end before its deadline");
    }
  }
  const std::uint64_t whole = staging_bytes(job->layout);
  STOKER_ASSIGN(job->arena, memory_.take(memory_.grant_bytes(whole), job->deadline));
  STOKER_TRY(hash_held(*job));
  job->staging = std::make_unique<Staging>(job->layout, job->arena->bytes());
  return {};
}

Result<PendingSave> CheckpointSaver::Core::enter(const Job& job) {
  job->failure = job->unless_no_memory([&] { return stage(job); });
  if (job->failure.ok())
    fills_->begin(job->number);
  else
    job->pending->set_released();
  {
    MutexLock lock(mutex_);
    queue_.push_back(job);
    in_flight_.push_back(job);
    // Returned right here; the other ranks get it from rank 0.
    if (!job->failure.ok()) raised_number_ = std::max(raised_number_, job->number);
  }
  changed_.notify_all();
  if (!job->failure.ok())
    return job->failure.with_context("save step " + std::to_string(job->request.step));
  fill(*job);
  job->pending->set_staged();
  return PendingSave(job->pending);
}

/// Copies the tensors. If the writer fails meanwhile the copy ends early, and the PendingSave has
/// the error. What need not be done before save() returns is left to a thread, or done here if
/// there is none.
void CheckpointSaver::Core::fill(SaveJob& job) {
  CopyRest rest;
  copy_or_fail(job, [&]() -> Status {
    STOKER_ASSIGN(rest, options_.copier->begin_copy(job.layout, job.stored, *job.staging));
    return {};
  });
  try {
    if (rest) {
      // What it uses may have to outlive this object: the save, if StuckWrites keeps it, does.
      job.drain = std::jthread([fills = fills_, copier = options_.copier, &job, rest]() mutable {
        drain(*fills, job, std::move(rest));
      });
      return;
    }
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread can be started
  } catch (const std::bad_alloc&) {     // NOLINT(bugprone-empty-catch): the same
  }
  drain(*fills_, job, std::move(rest));
}

/// After this the writer may free the job, which joins the thread that runs it.
void CheckpointSaver::Core::drain(Fills& fills, SaveJob& job, CopyRest rest) {
  if (rest) copy_or_fail(job, rest);
  rest = {};  // with the memory of the snapshot
  job.pending->set_released();
  fills.end(job.number);
}

}  // namespace stoker
