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

/// The memory that saves are staged in, kept from save to save: fresh pages cost ten times what a
/// copy into old ones does. Bounded; who asks for more than is free waits.
///
/// Thread safety: every method may be called from any thread.
class StagingMemory {
 public:
  /// Without a budget whatever is asked for is given; the number of saves in flight is the bound.
  /// `make`: where the memory comes from; nothing: mapped pages.
  explicit StagingMemory(std::optional<std::uint64_t> budget_bytes, ArenaMaker make = {});

  /// What a save of that size gets: its size, or less if the budget is; the save must then pass
  /// through it as through a ring of chunks. At least two chunks.
  std::size_t grant_bytes(std::uint64_t save_bytes) const noexcept;

  /// Whether take() would wait.
  bool is_short_of(std::size_t size_bytes) const;

  /// An arena of at least `size_bytes`, touched already. `unavailable` when `deadline` has passed,
  /// or the machine has no memory to give.
  Result<std::unique_ptr<Arena>> take(std::size_t size_bytes, Deadline deadline);
  void give_back(std::unique_ptr<Arena> arena);

  /// The device does not let go of what was lent: it stays counted, but one save at a time goes on
  /// beside it.
  void set_aside(const Arena& arena);
  /// The device has let go of it after all.
  void give_back_late(std::unique_ptr<Arena> arena);

 private:
  bool fits(std::size_t size_bytes) const STOKER_REQUIRES(mutex_);

  const std::optional<std::uint64_t> budget_;
  const ArenaMaker make_;
  mutable Mutex mutex_;
  Condition returned_;
  std::vector<std::unique_ptr<Arena>> free_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t lent_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t aside_bytes_ STOKER_GUARDED_BY(mutex_) = 0;  // of those
};

}  // namespace stoker
