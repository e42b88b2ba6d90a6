#include "checkpoint/ranks/message_carrier.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

constexpr nanoseconds kSlice = std::chrono::milliseconds(50);  // between two calls of pause()

}  // namespace

Status MessageCarrier::refusal() const {
  if (!failure_.ok()) return failure_;
  if (is_ending()) return Status(Code::unavailable, name_ + " is not used any more: it was closed");
  return {};
}

Result<std::vector<std::string>> MessageCarrier::call(
    CarriedRequest request, Deadline deadline, const std::function<Status(nanoseconds)>& pause) {
  STOKER_TRY(guard_.check("a carrier of messages"));
  const Deadline end = std::max(deadline, deadline_after(kGrace));
  const auto slot = std::make_shared<Slot>(Slot{.request = std::move(request)});
  bool is_queued = false;
  for (;;) {
    {
      const MutexLock lock(mutex_);
      if (!is_queued) STOKER_TRY(refusal());
      if (!is_queued && queue_.size() < queued_max_) {
        queue_.push_back(slot);
        changed_.notify_all();
        is_queued = true;
      }
      const Deadline slice = std::min(end, deadline_after(kSlice));
      while (!slot->is_over && Clock::now() < slice) changed_.wait_until(mutex_, slice);
      if (slot->is_over) return std::move(slot->answer);
      if (Clock::now() >= end) {
        slot->is_over = true;
        return Status(Code::unavailable, name_ + " did not answer in time");
      }
    }
    const Status paused = pause ? pause(nanoseconds(0)) : Status();
    if (!paused.ok()) {
      const MutexLock lock(mutex_);
      slot->is_over = true;
      return paused;
    }
  }
}

void MessageCarrier::post(CarriedRequest request) {
  if (!guard_.is_here()) return;
  const auto slot = std::make_shared<Slot>(Slot{.request = std::move(request)});
  const MutexLock lock(mutex_);
  if (!refusal().ok() || queue_.size() >= queued_max_) return;
  queue_.push_back(slot);
  changed_.notify_all();
}

void MessageCarrier::enter() {
  if (!guard_.is_here()) return;
  const MutexLock lock(mutex_);
  ++users_;
}

void MessageCarrier::leave() {
  if (!guard_.is_here()) return;
  const MutexLock lock(mutex_);
  --users_;
  changed_.notify_all();
}

void MessageCarrier::close() {
  if (!guard_.is_here()) return;
  const MutexLock lock(mutex_);
  is_closed_ = true;
  changed_.notify_all();
}

std::optional<CarriedRequest> MessageCarrier::next() {
  if (!guard_.is_here()) return std::nullopt;
  const MutexLock lock(mutex_);
  for (;;) {
    if (!failure_.ok()) return std::nullopt;
    while (!queue_.empty()) {
      current_ = std::move(queue_.front());
      queue_.pop_front();
      if (!current_->is_over) return std::move(current_->request);
    }
    current_ = nullptr;
    if (is_ending()) return std::nullopt;
    changed_.wait(mutex_);
  }
}

void MessageCarrier::answer(std::vector<std::string> texts) {
  const MutexLock lock(mutex_);
  if (current_ == nullptr) return;
  if (!current_->is_over) current_->answer = std::move(texts);
  current_->is_over = true;
  current_ = nullptr;
  changed_.notify_all();
}

void MessageCarrier::fail(const std::string& reason) {
  if (!guard_.is_here()) return;
  const MutexLock lock(mutex_);
  if (!failure_.ok()) return;
  failure_ = Status(Code::unavailable, reason);
  if (current_ != nullptr) queue_.push_back(std::exchange(current_, nullptr));
  for (const SlotPointer& slot : queue_) {
    if (!slot->is_over) slot->answer = failure_;
    slot->is_over = true;
  }
  queue_.clear();
  changed_.notify_all();
}

}  // namespace stoker
