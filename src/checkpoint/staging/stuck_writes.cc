#include "checkpoint/staging/stuck_writes.h"

#include <string>
#include <utility>

#include "base/clock.h"
#include "base/mutex.h"

namespace stoker {
namespace {

constexpr std::size_t kStuckMax = 2;

bool has_ended(StuckWrite& write) {
  if (write.part != nullptr) write.part->abandon(Clock::now());
  const bool is_written = write.part == nullptr || write.part->in_flight() == 0;
  return is_written && (!write.is_filled || write.is_filled());
}

/// Keeps a write until the process ends: destroying its engine would wait for its transfers, and
/// its memory must not be reused before. It is kept in a list, so that leak checkers do not report
/// it.
void keep_for_ever(std::unique_ptr<StuckWrite> write) {
  static Mutex mutex;
  static auto* const kept = new std::vector<std::unique_ptr<StuckWrite>>();
  const MutexLock lock(mutex);
  kept->push_back(std::move(write));
}

}  // namespace

StuckWrites::~StuckWrites() {
  for (std::unique_ptr<StuckWrite>& write : writes_)
    if (!has_ended(*write)) keep_for_ever(std::move(write));
}

void StuckWrites::keep(std::unique_ptr<StuckWrite> write) {
  if (write->arena != nullptr) memory_.set_aside(*write->arena);
  writes_.push_back(std::move(write));
}

Status StuckWrites::check() {
  std::erase_if(writes_, [&](std::unique_ptr<StuckWrite>& write) {
    if (!has_ended(*write)) return false;
    if (write->arena != nullptr) memory_.give_back_late(std::move(write->arena));
    return true;
  });
  if (writes_.size() < kStuckMax) return {};
  return Status(Code::unavailable,
                "the device does not answer: the writes, or the copies from a GPU, of " +
                    std::to_string(writes_.size()) + " earlier saves have not ended");
}

}  // namespace stoker
