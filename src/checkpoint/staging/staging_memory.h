#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "io/engine/arena.h"
#include "stoker/status.h"

namespace stoker {

/// The memory in which saves are staged, reused from save to save: new pages cost ten times as much
/// as a copy into old ones. Bounded; take() waits for free memory.
///
/// Thread safety: every method may be called from any thread.
class StagingMemory {
 public:
  /// Without a budget only the number of saves in flight limits the memory. `make` allocates it;
  /// empty: mapped pages.
  explicit StagingMemory(std::optional<std::uint64_t> budget_bytes, ArenaMaker make = {});

  /// Returns the memory for a save of that size: its size, or if the budget is smaller, 2 to 64
  /// chunks, through which the save must pass as a ring.
  std::size_t grant_bytes(std::uint64_t save_bytes) const noexcept;

  /// Whether take() would wait.
  bool is_short_of(std::size_t size_bytes) const;

  /// Returns an arena of at least `size_bytes`, with its pages already touched if it is mapped.
  /// `unavailable` if `deadline` passes first, or the machine is out of memory.
  Result<std::unique_ptr<Arena>> take(std::size_t size_bytes, Deadline deadline);
  void give_back(std::unique_ptr<Arena> arena);

  /// Marks an arena as still in use by the device: it stays counted, but one save at a time may
  /// exceed the budget.
  void set_aside(const Arena& arena);
  /// Gives back an arena that was set aside, once the device no longer uses it.
  void give_back_late(std::unique_ptr<Arena> arena);

 private:
  bool fits(std::size_t size_bytes) const STOKER_REQUIRES(mutex_);

  const std::optional<std::uint64_t> budget_;
  const ArenaMaker make_;
  mutable Mutex mutex_;
  Condition returned_;
  std::vector<std::unique_ptr<Arena>> free_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t lent_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t aside_bytes_ STOKER_GUARDED_BY(mutex_) = 0;  // part of lent_bytes_
};

}  // namespace stoker
