#include "checkpoint/commit_names.h"

#include <vector>

#include "checkpoint/history.h"
#include "checkpoint/lock_record.h"
#include "checkpoint/names.h"
#include "checkpoint/tree_removal.h"

namespace stoker {
namespace {

/// A second directory with the same files, staged in the owner's.
Status link_all(FileOps& ops, const std::string& from, const std::string& to) {
  static_cast<void>(remove_tree(ops, to));  // of an attempt that failed
  STOKER_TRY(ops.mkdir(to));
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(from));
  for (const std::string& name : names) STOKER_TRY(ops.link(from + "/" + name, to + "/" + name));
  return ops.fsync_dir(to);
}

}  // namespace

Status rename_without_replacing(FileOps& ops, const std::string& from, const std::string& to) {
  Status status = ops.rename_noreplace(from, to);
  if (status.code() != Code::unsupported) return status;
  // Where the flag is refused (NFS), a plain rename cannot replace a directory that holds
  // anything, and a checkpoint always does.
  return ops.rename(from, to);
}

Status fsync_places(const CommitPlaces& places) {
  STOKER_TRY(places.ops.fsync_dir(places.directory));
  return places.ops.fsync_dir(places.owner);
}

// The link is staged behind the fence, so that a writer that was presumed dead cannot move `latest`
// back.
Status move_latest(const CommitPlaces& places, const std::string& name) {
  FileOps& ops = places.ops;
  const std::string staged = places.owner + "/" + std::string(kLatestName);
  static_cast<void>(ops.unlink(staged));  // of an attempt that failed here
  STOKER_TRY(ops.symlink(name, staged));
  ops.reached("checkpoint.latest_staged");
  STOKER_TRY(ops.rename(staged, places.directory + "/" + std::string(kLatestName)));
  ops.reached("checkpoint.latest_moved");
  STOKER_TRY(fsync_places(places));
  ops.reached("checkpoint.latest_synced");
  return {};
}

// Where `latest` leads elsewhere a rename does. Otherwise it would lead nowhere until the new
// checkpoint is there, so the old one gets its second name first: 1. Link its files into a staged
// directory and fsync that.  2. Rename it to the superseded name, fsync.  3. Move `latest` to it.
// 4. Rename the directory with the old name to trash, fsync, and remove it.
Status supersede(const CommitPlaces& places, std::uint64_t step, std::uint64_t generation) {
  FileOps& ops = places.ops;
  const std::string name = superseded_name(step, generation);
  const std::string from = places.directory + "/" + step_name(step);
  const std::string to = places.directory + "/" + name;
  const std::string staged = places.owner + "/" + name;
  // Nothing is put away under a name that says something else of it.
  const Result<CheckpointManifest> present = read_checkpoint_manifest(ops, from);
  if (present.ok() && present->generation != generation)
    return Status(Code::unavailable, from + ": was replaced while this step was being saved");
  const Result<std::string> latest =
      ops.read_link(places.directory + "/" + std::string(kLatestName));
  const bool is_latest = latest.ok() && *latest == step_name(step);
  if (!is_latest || !link_all(ops, from, staged).ok()) {
    STOKER_TRY(rename_without_replacing(ops, from, to));
    ops.reached("checkpoint.superseded");
    return ops.fsync_dir(places.directory);
  }
  const Status renamed = rename_without_replacing(ops, staged, to);
  // One that was cut short after this step has left the same files under that name.
  if (!renamed.ok() && renamed.code() != Code::already_exists) return renamed;
  ops.reached("checkpoint.superseded");
  STOKER_TRY(fsync_places(places));
  STOKER_TRY(move_latest(places, name));
  const std::string trash = places.directory + "/" + trash_name(step_name(step), make_token());
  STOKER_TRY(ops.rename(from, trash));
  STOKER_TRY(ops.fsync_dir(places.directory));
  static_cast<void>(remove_tree(ops, trash));  // else by the next holder's sweep
  return {};
}

}  // namespace stoker
