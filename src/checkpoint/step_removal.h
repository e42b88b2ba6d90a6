#pragma once

#include <string>
#include <vector>

#include "checkpoint/retention.h"
#include "io/file_ops.h"

namespace stoker {

// A checkpoint goes in two parts, because the second takes as long as the filesystem needs to free
// its blocks: nobody has to wait for it. Crash points: retention.renamed and .parent_synced of the
// first, .unlinked and .removed of the second. All of it is for the holder of the writer's lock,
// and what a failure leaves behind is swept by the next one.

/// Takes a checkpoint out of sight for good: nobody who lists the directory sees a part of it.
/// Returns where it lies now. On failure it is whole under its own name, or out of sight.
Result<std::string> hide_checkpoint(FileOps& ops, const std::string& directory,
                                    const std::string& name);

/// Removes what hide_checkpoint() has returned.
Status remove_hidden(FileOps& ops, const std::string& path);

/// Both.
Status remove_checkpoint(FileOps& ops, const std::string& directory, const std::string& name);

struct RetentionReport {
  std::vector<std::string> hidden = {};  ///< Where they lie now; for remove_hidden().
  Status failure = {};                   ///< It ended the work; what is left is for the next time.
};

/// Lists the directory, chooses, and hides what nobody wants.
RetentionReport hide_unwanted(FileOps& ops, const std::string& directory,
                              const RetentionRules& rules);

}  // namespace stoker
