#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "checkpoint/staging/staging_memory.h"
#include "checkpoint/store/staged_part.h"
#include "io/engine/arena.h"
#include "io/engine/engine.h"
#include "stoker/status.h"

namespace stoker {

/// Writes, or copies of a device, that have not ended by their save's deadline, with everything
/// that the kernel, a device or a thread may still access.
struct StuckWrite {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Arena> arena;
  /// Owns the files. The writes have ended when it has none in flight. Null: there are no writes.
  std::unique_ptr<StagedPart> part;
  /// The save, if a device still fills its chunks: owns the threads that wait for the device.
  std::shared_ptr<void> filling;
  std::function<bool()> is_filled;  ///< Whether that is over. Empty: it is.
};

/// Keeps stuck writes until they end, so that later saves can continue.
///
/// Thread safety: none; it belongs to one thread. The destructor does not wait: what is still stuck
/// is kept until the process ends.
class StuckWrites {
 public:
  explicit StuckWrites(StagingMemory& memory) : memory_(memory) {}
  StuckWrites(const StuckWrites&) = delete;
  StuckWrites& operator=(const StuckWrites&) = delete;
  ~StuckWrites();

  void keep(std::unique_ptr<StuckWrite> write);
  /// Releases the writes that have ended. `unavailable` if so many are left that one more save
  /// would probably get stuck as well, with its memory.
  Status check();

 private:
  StagingMemory& memory_;
  std::vector<std::unique_ptr<StuckWrite>> writes_;
};

}  // namespace stoker
