#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/clock.h"
#include "io/file_ops.h"
#include "stoker/status.h"

namespace stoker {

struct MeetingOptions {
  std::string directory;  ///< The checkpoints': every rank sees it.
  /// What they meet for, and in which run: those with another word do not meet. Letters, digits,
  /// '-', '_' and '.'.
  std::string word;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
  /// Sleeps; an error ends the wait. Nothing: it just sleeps.
  std::function<Status(nanoseconds)> pause = {};
};

/// Gives ranks that share a filesystem, and nothing else, a session that nobody has used before
/// (coordinator.h): without it a rank might hear what rank 0 said before the run was killed and
/// started again.
///
/// Returns on rank 0 when every rank has heard the session; it then makes `owner-<session>` in the
/// directory, by taking the lock or by itself. Returns on the others when that is there. A rank
/// that is missing is named on every rank: `unavailable`, "rank 3 did not answer in time in
/// <directory>".
Result<std::string> meet_ranks(FileOps& ops, const MeetingOptions& options, Deadline deadline);

/// Removes what a meeting has left: on rank 0, when nobody waits in it any more. A lock that is
/// taken sweeps it, too.
void clear_meeting(FileOps& ops, const MeetingOptions& options);

}  // namespace stoker
