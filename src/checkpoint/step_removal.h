#pragma once

#include <string>
#include <vector>

#include "checkpoint/retention.h"
#include "io/file_ops.h"

namespace stoker {

/// Removes one checkpoint: nobody who lists the directory sees a part of it. Crash points:
/// retention.renamed, .parent_synced, .unlinked, .removed. On failure it is whole under its own
/// name, or out of sight under a name that the next holder of the lock sweeps. For the holder of
/// the writer's lock only.
Status remove_checkpoint(FileOps& ops, const std::string& directory, const std::string& name);

struct RetentionReport {
  std::vector<std::string> removed;
  std::vector<DamagedNote> damaged_notes;
};

/// Lists the directory, chooses, and removes what nobody wants. Stops at the first failure; what is
/// left is for the next time.
Result<RetentionReport> apply_retention(FileOps& ops, const std::string& directory,
                                        const RetentionRules& rules);

}  // namespace stoker
