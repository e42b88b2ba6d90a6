#include "checkpoint/give_up.h"

#include <algorithm>
#include <vector>

#include "checkpoint/history.h"
#include "checkpoint/names.h"
#include "io/publish.h"

namespace stoker {
namespace {

/// Whether what bears the step's name may be this save: a rewound run may have left another there.
bool may_be_published(const UnansweredSave& save) {
  const std::string name = step_name(save.step);
  const Result<std::vector<std::string>> names = save.ops.list(save.directory);
  if (!names.ok()) return true;
  if (std::ranges::find(*names, name) == names->end()) return false;
  const Result<CheckpointManifest> present =
      read_checkpoint_manifest(save.ops, save.directory + "/" + name);
  if (!present.ok()) return true;
  return std::ranges::all_of(save.part.files, [&](const CheckpointFile& file) {
    return std::ranges::find(present->files, file) != present->files.end();
  });
}

}  // namespace

// 1. Rename the staging directory: from here on rank 0 cannot publish it. Another rank may have
// been first. A rank that makes the directory anew has the part of none that gave up, and rank 0
// asks for all.  2. fsync the directory it is in: where the ranks' disk is a server, that may crash
// without them. If there is no staging directory, rank 0 has published or removed it, or another
// writer has taken over: then the name of the step decides.
SaveOutcome give_up(const UnansweredSave& save) {
  const Status renamed = save.ops.rename(save.staging, given_up_name(save.staging));
  if (renamed.ok() || is_given_up(save.ops, save.staging)) {
    const Status synced = save.ops.fsync_dir(parent_of(save.staging));
    save.ops.reached("checkpoint.given_up");
    // Nothing is published from a directory that is gone.
    const bool is_certain = synced.ok() || synced.code() == Code::not_found;
    return is_certain ? SaveOutcome::failed : SaveOutcome::unknown;
  }
  if (renamed.code() != Code::not_found) return SaveOutcome::unknown;
  return may_be_published(save) ? SaveOutcome::unknown : SaveOutcome::failed;
}

bool is_given_up(FileOps& ops, const std::string& staging) {
  return ops.kind_of(given_up_name(staging)).ok();
}

}  // namespace stoker
