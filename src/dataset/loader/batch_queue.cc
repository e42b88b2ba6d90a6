#include "dataset/loader/batch_queue.h"

#include <algorithm>
#include <utility>

namespace stoker::internal {

BatchQueue::BatchQueue(const Options& options)
    : batch_count_(options.batch_count),
      depth_max_(options.depth_max),
      slots_(options.depth_max),
      threads_(options.threads_max),
      depth_(options.depth_max),
      held_(options.held_warning, options.held_limit) {}

BatchQueue::Slot& BatchQueue::slot(std::uint64_t number) {
  return slots_[number % slots_.size()];
}

bool BatchQueue::is_finished() const {
  return stopped_ || !failure_.ok() || (batch_count_ && next_number_ >= *batch_count_);
}

bool BatchQueue::may_take(std::size_t worker) const {
  return worker < threads_ && next_number_ - next_taken_ < depth_;
}

std::optional<std::uint64_t> BatchQueue::take_number(std::size_t worker) {
  MutexLock lock(mutex_);
  while (!is_finished() && !may_take(worker)) {
    if (worker < threads_) {
      workers_.wait(mutex_);
    } else {
      parked_.wait(mutex_);
    }
  }
  if (is_finished()) return std::nullopt;
  return next_number_++;
}

bool BatchQueue::begin_lease(std::uint64_t number) {
  MutexLock lock(mutex_);
  while (!stopped_ && next_lease_ != number) workers_.wait(mutex_);
  return !stopped_;
}

void BatchQueue::waits_for_memory(std::uint64_t number) {
  {
    MutexLock lock(mutex_);
    waits_for_memory_ = number;
  }
  caller_.notify_all();
}

void BatchQueue::end_lease(std::uint64_t number) {
  bool was_waiting = false;
  {
    MutexLock lock(mutex_);
    was_waiting = waits_for_memory_.has_value();
    waits_for_memory_.reset();
    next_lease_ = number + 1;
  }
  workers_.notify_all();
  if (was_waiting) caller_.notify_all();
}

void BatchQueue::put(std::uint64_t number, std::unique_ptr<BatchData> batch) {
  bool is_due = false;
  {
    MutexLock lock(mutex_);
    if (stopped_) return;  // `batch` is dropped after the lock
    Slot& place = slot(number);
    place.batch = std::move(batch);
    place.is_done = true;
    is_due = number == next_taken_;
  }
  if (is_due) caller_.notify_all();
}

void BatchQueue::put_failure(std::uint64_t number, Status status) {
  {
    MutexLock lock(mutex_);
    if (stopped_) return;
    Slot& place = slot(number);
    place.status = std::move(status);
    place.is_done = true;
  }
  caller_.notify_all();
}

void BatchQueue::fail(Status status) {
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }
  parked_.notify_all();
  workers_.notify_all();
  caller_.notify_all();
}

bool BatchQueue::take_ready(Taken& out) {
  Slot& due = slot(next_taken_);
  if (!due.is_done) return false;
  if (!due.status.ok()) {
    failure_ = due.status;  // this and all later calls fail
    return false;
  }
  out.kind = Taken::Kind::batch;
  out.batch = std::move(due.batch);
  due.is_done = false;
  ++next_taken_;
  held_.reset();
  return true;
}

bool BatchQueue::observe_held(Taken& out, Deadline now, Deadline& wake) {
  if (waits_for_memory_ != next_taken_) {
    held_.pause(now);
    return false;
  }
  const HeldWait::Verdict verdict = held_.waiting(now);
  out.warned = out.warned || verdict == HeldWait::Verdict::warn;
  wake = std::min(wake, held_.wake_at());
  return verdict == HeldWait::Verdict::fail;
}

BatchQueue::Taken BatchQueue::take(Deadline deadline) {
  const Deadline from = Clock::now();
  Taken out;
  bool failed_now = false;
  {
    MutexLock lock(mutex_);
    for (;;) {
      out.now = Clock::now();
      if (stopped_) {
        out.kind = failure_.ok() ? Taken::Kind::stopped : Taken::Kind::failed;
        out.status = failure_;
        break;
      }
      if (failure_.ok() && take_ready(out)) break;
      if (!failure_.ok()) {
        out.kind = Taken::Kind::failed;
        out.status = failure_;
        failed_now = true;
        break;
      }
      if (batch_count_ && next_taken_ >= *batch_count_) break;  // the end
      Deadline wake = deadline;
      if (observe_held(out, out.now, wake)) {
        out.kind = Taken::Kind::memory_held;
        break;
      }
      if (out.now >= deadline) {
        out.kind = Taken::Kind::timeout;
        break;
      }
      caller_.wait_until(mutex_, wake);
    }
    if (out.kind != Taken::Kind::batch) held_.pause(out.now);
  }
  out.waited = out.now - from;
  if (out.kind == Taken::Kind::batch || failed_now) workers_.notify_all();
  return out;
}

void BatchQueue::stop() noexcept {
  std::vector<Slot> dropped;  // their memory is released after the lock
  {
    MutexLock lock(mutex_);
    stopped_ = true;
    dropped.swap(slots_);
  }
  parked_.notify_all();
  workers_.notify_all();
  caller_.notify_all();
}

void BatchQueue::set_limits(std::size_t threads, std::size_t depth) {
  {
    MutexLock lock(mutex_);
    threads_ = threads;
    depth_ = std::min(depth, depth_max_);
  }
  parked_.notify_all();
  workers_.notify_all();
}

std::size_t BatchQueue::threads() const {
  MutexLock lock(mutex_);
  return threads_;
}
std::size_t BatchQueue::depth() const {
  MutexLock lock(mutex_);
  return depth_;
}

}  // namespace stoker::internal
