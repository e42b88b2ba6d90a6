#pragma once

#include <cstdint>
#include <string>

#include "checkpoint/manifest/manifest.h"
#include "checkpoint/save/pending.h"
#include "checkpoint/store/checkpoint_store.h"

namespace stoker {

/// A save whose part a rank other than 0 has written, without an answer from rank 0.
struct UnansweredSave {
  const CheckpointStore& store;
  std::string staging;  ///< Staging name of the save (CheckpointWriter::staging_name()).
  std::uint64_t step = 0;
  const CheckpointPart& part;  ///< This rank's.
};

/// Abandons the save for all ranks: if rank 0 was only slow, it can no longer commit it. Returns
/// `failed` if that is certain; `unknown` if rank 0 may have committed before. Crash point:
/// checkpoint.abandoned.
SaveOutcome abandon_save(const UnansweredSave& save);

}  // namespace stoker
