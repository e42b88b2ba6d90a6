#pragma once

#include <functional>
#include <string>
#include <vector>

#include "checkpoint/catalog.h"
#include "checkpoint/reader.h"
#include "io/file_ops.h"

namespace stoker {

/// A checkpoint that was passed over, and why.
struct PassedOver {
  std::string name;
  Status reason;
};

struct RestoreRequest {
  FileOps& ops;
  std::string directory;  ///< The checkpoints'.
  /// The one that is wanted: "step-000000001000", or the name of one that was superseded. Empty:
  /// the newest generation that holds.
  std::string name = {};
  /// Passes over steps that brought values that are not finite.
  bool finite = false;
  CheckpointReader::Options reader = {};
};

struct RestoreChoice {
  std::string name;  ///< What was restored; empty if there is no checkpoint at all.
  std::vector<PassedOver> passed_over;
};

/// Does with a checkpoint what it is restored for, reading everything. `corrupt`, and `io_error` of
/// a device that cannot give its bytes back, pass it over; any other error ends the choice.
using TryCheckpoint = std::function<Status(const CheckpointReader&)>;

/// Tries checkpoints from the newest generation on until one holds. Never takes a lock; a step that
/// is removed meanwhile makes it list again. With a name there is no other to turn to: its own
/// error is returned, `not_found` if it is not there. `corrupt`, with every reason, if there are
/// checkpoints and none of them holds; `unsupported` if one was written by a newer version, because
/// going on from an older checkpoint would hide it.
Result<RestoreChoice> choose_checkpoint(const RestoreRequest& request,
                                        const TryCheckpoint& attempt);

}  // namespace stoker
