#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/manifest/manifest.h"
#include "checkpoint/save/pending.h"

namespace stoker {

/// A save of which another rank than 0 has written its part, and hears nothing more.
struct UnansweredSave {
  const CheckpointDirectory& directory;
  std::string staging;  ///< Of this attempt: "owner-<token>/...".
  std::uint64_t step = 0;
  const CheckpointPart& part;  ///< This rank's.
};

/// Ends the save for all ranks as a takeover does: renames the staging directory, so that a rank 0
/// which was only slow finds no source for its rename and cannot publish. `failed` if that is
/// certain; `unknown` if rank 0 was first, or nobody can tell. Crash point: checkpoint.abandoned.
SaveOutcome abandon_save(const UnansweredSave& save);

/// Whether a rank has abandoned the save with this staging directory.
bool is_abandoned(const CheckpointDirectory& directory, const std::string& staging);

}  // namespace stoker
