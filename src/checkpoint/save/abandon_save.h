#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/save/pending.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// A save of which another rank than 0 has written its part, and hears nothing more.
struct UnansweredSave {
  const CheckpointStore& directory;
  std::string staging;  ///< Of this attempt (CheckpointWriter::staging_name()).
  std::uint64_t step = 0;
  const CheckpointPart& part;  ///< This rank's.
};

/// Ends the save for all ranks: a rank 0 which was only slow cannot commit it any more. `failed` if
/// that is certain; `unknown` if rank 0 was first, or nobody can tell. Crash point:
/// checkpoint.abandoned.
SaveOutcome abandon_save(const UnansweredSave& save);

/// Whether a rank has abandoned the save with this staging name.
inline bool is_abandoned(const CheckpointStore& store, const std::string& staging) {
  return store.is_abandoned(staging);
}

}  // namespace stoker
