#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "checkpoint/staging/staging_memory.h"
#include "checkpoint/store/staged_part.h"
#include "io/engine/arena.h"
#include "io/engine/engine.h"
#include "stoker/status.h"

namespace stoker {

/// Writes that have not ended by their save's deadline, with all that the kernel or a thread may
/// still reach for.
struct StuckWrite {
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Arena> arena;
  std::unique_ptr<StagedPart> part;  ///< Has the files.
};

/// Keeps such writes until they end, so that the saves after them can go on.
///
/// Thread safety: none; it belongs to the thread of the engines, the writer's. The destructor waits
/// for nobody: what is still stuck then is kept until the process ends.
class StuckWrites {
 public:
  explicit StuckWrites(StagingMemory& memory) : memory_(memory) {}
  StuckWrites(const StuckWrites&) = delete;
  StuckWrites& operator=(const StuckWrites&) = delete;
  ~StuckWrites();

  void keep(std::unique_ptr<StuckWrite> write);
  /// Lets go of those that have ended meanwhile. `unavailable` if so many are left that one more
  /// save would only be lost as well, and its memory with it.
  Status check();

 private:
  StagingMemory& memory_;
  std::vector<std::unique_ptr<StuckWrite>> writes_;
};

}  // namespace stoker
