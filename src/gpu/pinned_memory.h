#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <span>

#include "base/mutex.h"
#include "gpu/cuda_device.h"
#include "io/engine/arena.h"
#include "stoker/status.h"

namespace stoker {

/// Arenas that the driver pins for all devices once a device uses them, so that copies run at the
/// speed of the link. Memory that no device uses is never pinned: that costs time and a context.
///
/// Thread safety: every method may be called from any thread, pin() by one at a time for each
/// arena.
class PinnedMemory : public std::enable_shared_from_this<PinnedMemory> {
 public:
  static std::shared_ptr<PinnedMemory> make() {
    return std::shared_ptr<PinnedMemory>(new PinnedMemory());
  }

  /// Returns a maker of mapped arenas that pin() knows. An arena is unregistered when it is freed.
  /// Without `touch` its pages are faulted in by pin(): for memory that a device will use at once.
  ArenaMaker maker(bool touch = true);

  /// Registers the arena that contains `memory` with the driver, with `device` current, unless it
  /// was tried before, and keeps it from forked children, whose writes would move the parent's
  /// pages away from the device. Returns whether it is registered. If not, copies still work, but
  /// slower, and each call waits for its copy; failure() then has the reason.
  bool pin(std::span<const std::byte> memory, const std::shared_ptr<const CudaDevice>& device);

  /// Returns why an arena could not be registered; OK if none was refused.
  Status failure() const;

 private:
  class PinnedArena;
  PinnedMemory() = default;
  PinnedArena* find(const std::byte* at) const;
  void forget(const std::byte* first);

  mutable Mutex mutex_;
  std::map<const std::byte*, PinnedArena*> arenas_ STOKER_GUARDED_BY(mutex_);  // by first byte
  Status failure_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
