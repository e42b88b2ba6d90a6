#include "checkpoint/save/pending.h"

#include <utility>

namespace stoker {

std::string_view outcome_name(SaveOutcome outcome) noexcept {
  switch (outcome) {
    case SaveOutcome::committed: return "committed";
    case SaveOutcome::skipped: return "skipped";
    case SaveOutcome::replaced: return "replaced";
    case SaveOutcome::failed: return "failed";
    case SaveOutcome::unknown: break;
  }
  return "unknown";
}

void PendingState::set_staged() {
  MutexLock lock(mutex_);
  is_staged_ = true;
}

void PendingState::set_released() {
  MutexLock lock(mutex_);
  is_released_ = true;
}

void PendingState::finish(SaveOutcome outcome, Status status, std::uint64_t generation,
                          std::string line) {
  {
    MutexLock lock(mutex_);
    outcome_ = outcome;
    status_ = std::move(status);
    generation_ = generation;
    line_ = std::move(line);
  }
  finished_.notify_all();
}

bool PendingState::is_staged() const {
  MutexLock lock(mutex_);
  return is_staged_;
}

bool PendingState::is_released() const {
  MutexLock lock(mutex_);
  return is_released_;
}

std::optional<SaveOutcome> PendingState::outcome() const {
  MutexLock lock(mutex_);
  return outcome_;
}

std::string PendingState::line() const {
  MutexLock lock(mutex_);
  return line_;
}

std::uint64_t PendingState::generation() const {
  MutexLock lock(mutex_);
  return generation_;
}

Status PendingState::wait(nanoseconds timeout) const {
  STOKER_TRY(guard_.check("a pending save"));
  const Deadline deadline = deadline_after(timeout);
  MutexLock lock(mutex_);
  while (!outcome_) {
    if (!finished_.wait_until(mutex_, deadline) && !outcome_)
      return Status(Code::unavailable, "step " + std::to_string(step_) + " is still being saved");
  }
  return status_;
}

PendingSave::PendingSave(std::shared_ptr<const PendingState> state) : state_(std::move(state)) {}

std::uint64_t PendingSave::step() const noexcept {
  return state_->step();
}

bool PendingSave::is_staged() const {
  return state_->is_staged();
}

bool PendingSave::is_released() const {
  return state_->is_released();
}

bool PendingSave::is_done() const {
  return state_->outcome().has_value();
}

bool PendingSave::is_durable() const {
  return state_->outcome() == SaveOutcome::committed;
}

std::optional<SaveOutcome> PendingSave::outcome() const {
  return state_->outcome();
}

std::uint64_t PendingSave::generation() const {
  return state_->generation();
}

std::string PendingSave::line() const {
  return state_->line();
}

Status PendingSave::wait(nanoseconds timeout) const {
  return state_->wait(timeout);
}

void PendingSave::set_reported() const noexcept {
  state_->set_reported();
}

}  // namespace stoker
