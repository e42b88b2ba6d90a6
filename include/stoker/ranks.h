/// \file
/// Ranks: a process among those that train together.
#pragma once

#include <cstdint>

#include "stoker/api.h"
#include "stoker/status.h"

namespace stoker {

/// Which of the processes that train together this one is. Plain data.
struct STOKER_API Ranks {
  std::uint64_t rank = 0;        ///< Below world_size.
  std::uint64_t world_size = 1;  ///< Number of processes.
  /// How many of them share the memory of this machine.
  std::uint64_t local_world_size = 1;

  bool operator==(const Ranks&) const = default;

  /// Reads what launchers set: RANK and WORLD_SIZE (torchrun), SLURM_PROCID and SLURM_NTASKS, or
  /// those of Open MPI, in this order; 0 of 1 if there are none. The number of processes on this
  /// machine is that of the same launchers. `invalid_argument` for what is no number, for a rank
  /// that is not below the world size, and if RANK or WORLD_SIZE is set without the other: every
  /// process would train on the same data.
  ///
  /// Only functions whose name ends with from_environment read the environment.
  ///
  /// Thread safety: from any thread, while none changes the environment.
  static Result<Ranks> from_environment();
};

}  // namespace stoker
