#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/manifest.h"
#include "checkpoint/pending.h"
#include "io/file_ops.h"

namespace stoker {

/// A save of which another rank than 0 has written its part, and hears nothing more.
struct UnansweredSave {
  FileOps& ops;
  std::string directory;  ///< The checkpoints'.
  std::string staging;    ///< Of this attempt.
  std::uint64_t step = 0;
  const CheckpointPart& part;  ///< This rank's.
};

/// Ends the save for all ranks as a takeover does: renames the staging directory, so that a rank 0
/// which was only slow finds no source for its rename and cannot publish. `failed` if that is
/// certain; `unknown` if rank 0 was first, or nobody can tell. Crash point: checkpoint.given_up.
SaveOutcome give_up(const UnansweredSave& save);

/// Whether a rank has given up the save with this staging directory.
bool is_given_up(FileOps& ops, const std::string& staging);

}  // namespace stoker
