#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/catalog/catalog.h"
#include "checkpoint/restore/reader.h"
#include "io/files/file_ops.h"

namespace stoker {

/// A checkpoint that was passed over, and why.
struct PassedOver {
  std::string name;
  Status reason;
};

struct RestoreRequest {
  StoreHandle directory;  ///< Or another store.
  /// The one that is wanted: "step-000000001000", or the name of one that was superseded. Empty:
  /// the newest valid one.
  std::string name = {};
  /// Passes over steps that brought values that are not finite.
  bool finite = false;
  CheckpointReader::Options reader = {};
};

struct RestoreChoice {
  std::string name;  ///< What was restored; empty if there is no checkpoint at all.
  std::vector<PassedOver> passed_over;
};

/// Does with a checkpoint what it is restored for, reading everything. Damage (is_damage()) passes
/// it over; any other error ends the choice.
using TryCheckpoint = std::function<Status(const CheckpointReader&)>;

/// Tries checkpoints from the newest generation on until one is valid. Never takes a lock; a step
/// that is removed meanwhile makes it list again. With a name there is no other to turn to: its own
/// error is returned, `not_found` if it is not there. `corrupt`, with every reason, if there are
/// checkpoints and none of them is valid.
///
/// A checkpoint that cannot be read for another reason than damage (rights, descriptors, memory, a
/// newer version) ends it: continuing from an older one would lose what nobody has lost yet.
Result<RestoreChoice> choose_checkpoint(const RestoreRequest& request,
                                        const TryCheckpoint& attempt);

}  // namespace stoker
