#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/restore/reader.h"
#include "io/files/file_ops.h"

namespace stoker {

/// A checkpoint that was skipped, and why.
struct PassedOver {
  std::string name;
  Status reason;
  std::uint64_t generation = 0;  ///< If its manifest is valid and its data is damaged; otherwise 0.
};

struct RestoreRequest {
  StoreHandle directory;  ///< A directory or any other store.
  /// Name of the checkpoint: "step-000000001000", or that of a superseded one. Empty: the newest
  /// valid one.
  std::string name = {};
  /// Skips checkpoints with new non-finite values (mark_nonfinite()).
  bool finite = false;
  CheckpointReader::Options reader = {};
  /// If set: a failure, which counts as damage, skips the checkpoint before it is read.
  std::function<Status(const CatalogStep&)> may_restore = {};
};

struct RestoreChoice {
  std::string name;  ///< The restored checkpoint; empty if there are no checkpoints.
  std::vector<PassedOver> passed_over;
};

/// Restores a checkpoint, reading everything it needs. After damage (is_damage()) the next
/// checkpoint is tried; after is_gone() the store is listed again; any other error ends the choice.
using TryCheckpoint = std::function<Status(const CheckpointReader&)>;

/// Tries checkpoints, newest first, until one is valid. Takes no lock; if a step is removed
/// meanwhile it lists again. If `request` names a checkpoint, only that one is tried and its error
/// returned, `not_found` if it does not exist. `corrupt`, with every reason, if there are
/// checkpoints and none of them is valid.
///
/// A checkpoint that cannot be read for a reason other than damage (permissions, descriptors,
/// memory, a newer version) ends the choice: continuing from an older one would lose progress that
/// is still there.
Result<RestoreChoice> choose_checkpoint(const RestoreRequest& request,
                                        const TryCheckpoint& attempt);

}  // namespace stoker
