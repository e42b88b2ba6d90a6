// How much space the saves in flight still need, and waits for more of it.
#include <algorithm>

#include "checkpoint/save/saver_core.h"

namespace stoker {
namespace {

bool is_reserving(const std::shared_ptr<SaveJob>& job) {
  return job->reservation.load(std::memory_order_relaxed) == Reservation::under_way;
}

}  // namespace

std::uint64_t CheckpointSaver::Core::new_bytes(const CheckpointLayout& layout) const {
  const std::shared_ptr<const LinkParent> parent = learned_.parent();
  std::uint64_t total = 0;
  for (const LayoutFile& file : layout.files) {
    const bool is_link =
        file.group && parent != nullptr && parent->find(file.name, file.size_bytes) != nullptr;
    if (!is_link) total += file.size_bytes;
  }
  return total;
}

SavesInFlight CheckpointSaver::Core::saves_in_flight(const BeginMessage& message) const {
  SavesInFlight saves;
  MutexLock lock(mutex_);
  for (const Job& other : in_flight_) saves.steps.push_back(other->request.step);
  saves.unreserved_bytes = unreserved_bytes(message);
  return saves;
}

// The save offered for replacement is not counted. If the ranks do not agree on it, and it stays,
// a write may fail for lack of space.
std::uint64_t CheckpointSaver::Core::unreserved_bytes(const BeginMessage& message,
                                                      std::uint64_t SaveJob::* needed) const {
  std::uint64_t total = 0;
  for (const Job& other : in_flight_) {
    const bool is_offered = message.is_late && other->number == message.waiting_number;
    const bool is_reserved =
        other->reservation.load(std::memory_order_relaxed) == Reservation::done;
    if (!is_offered && other->failure.ok() && !is_reserved) total += (*other).*needed;
  }
  return total;
}

/// While an earlier save reserves its blocks, they are counted twice: as used and as still needed.
/// Waits, under every policy, until it has reserved all or has ended. Returns true if less is
/// needed than `seen`.
bool CheckpointSaver::Core::await_reservation(const BeginMessage& message,
                                              const SavesInFlight& seen, Deadline deadline) {
  MutexLock lock(mutex_);
  while (std::ranges::any_of(in_flight_, is_reserving) && changed_.wait_until(mutex_, deadline)) {
  }
  return unreserved_bytes(message) < seen.unreserved_bytes;
}

/// Whether waiting may free space: condemned checkpoints are being removed, or the policy is to
/// wait for earlier saves, which may remove some.
bool CheckpointSaver::Core::is_room_coming() const {
  return is_removing_ || (options_.late == LatePolicy::block && !in_flight_.empty());
}

void CheckpointSaver::Core::await_room(Deadline deadline) {
  MutexLock lock(mutex_);
  while (is_room_coming() && changed_.wait_until(mutex_, deadline)) {
  }
}

/// As decide() does on rank 0, before this rank tells again how much space its disk has.
void CheckpointSaver::Core::await_own_room(Deadline deadline) {
  MutexLock lock(mutex_);
  while ((is_room_coming() || std::ranges::any_of(in_flight_, is_reserving)) &&
         changed_.wait_until(mutex_, deadline)) {
  }
}

}  // namespace stoker
