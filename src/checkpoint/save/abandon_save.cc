#include "checkpoint/save/abandon_save.h"

#include <algorithm>
#include <vector>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"

namespace stoker {
namespace {

/// Whether what bears the step's name may be this save: a rewound run may have left another there.
bool may_be_published(const UnansweredSave& save) {
  FileOps& ops = save.directory.ops();
  const PathAt path = save.directory.at(step_name(save.step));
  const Result<FileInfo> info = ops.info_of(path);
  if (!info.ok()) return info.status().code() != Code::not_found;
  const Result<CheckpointManifest> present = read_checkpoint_manifest(ops, path);
  if (!present.ok()) return true;
  return std::ranges::all_of(save.part.files, [&](const CheckpointFile& file) {
    return std::ranges::find(present->files, file) != present->files.end();
  });
}

}  // namespace

// 1. Rename the staging directory: from here on rank 0 cannot publish it. Another rank may have
// been first. A rank that makes the directory anew has the part of none that abandoned it, and
// rank 0 asks for all.  2. fsync the directory it is in: where the ranks' disk is a server, that
// may crash without them. If there is no staging directory, rank 0 has published or removed it, or
// another writer has taken over: then the name of the step decides.
SaveOutcome abandon_save(const UnansweredSave& save) {
  FileOps& ops = save.directory.ops();
  const PathAt staging = save.directory.at(save.staging);
  const Status renamed = ops.rename(staging, save.directory.at(abandoned_name(save.staging)));
  if (renamed.ok() || is_abandoned(save.directory, save.staging)) {
    const Status synced = ops.fsync_dir(staging.parent());
    ops.reached("checkpoint.abandoned");
    // Nothing is published from a directory that is gone.
    const bool is_certain = synced.ok() || synced.code() == Code::not_found;
    return is_certain ? SaveOutcome::failed : SaveOutcome::unknown;
  }
  if (renamed.code() != Code::not_found) return SaveOutcome::unknown;
  return may_be_published(save) ? SaveOutcome::unknown : SaveOutcome::failed;
}

bool is_abandoned(const CheckpointDirectory& directory, const std::string& staging) {
  return directory.ops().info_of(directory.at(abandoned_name(staging))).ok();
}

}  // namespace stoker
