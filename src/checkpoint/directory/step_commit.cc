#include "checkpoint/directory/step_commit.h"

#include <algorithm>
#include <cerrno>
#include <numeric>
#include <vector>

#include "base/token.h"
#include "checkpoint/manifest/manifest_file.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

/// Limit of superseded checkpoints with the same step and generation.
constexpr std::uint32_t kSameNameMax = 10'000;

/// Stages a second directory with hard links to the same files in the owner's directory.
/// `not_found` if the owner's directory is gone.
Status link_all(const OwnerDirectory& owner, const PathAt& from, const std::string& staged) {
  FileOps& ops = owner.directory().ops();
  STOKER_TRY(ops.mkdir(owner.at(staged)));
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(from));
  for (const std::string& name : names) STOKER_TRY(ops.link(from / name, owner.at(staged) / name));
  return ops.fsync_dir(owner.at(staged));
}

/// Whether both directories contain the same names and inodes, as after link_all().
bool has_same_files(FileOps& ops, const PathAt& a, const PathAt& b) {
  const Result<std::vector<DirectoryName>> names = ops.list_names(a);
  const Result<std::vector<DirectoryName>> others = ops.list_names(b);
  return names.ok() && others.ok() && !names->empty() && *names == *others;
}

/// The name for a superseded checkpoint.
struct AwayName {
  std::string name;
  bool is_there = false;  ///< It exists with the same files: an attempt was interrupted.
};

/// Returns the first name that is free or already has the same files.
Result<AwayName> away_name(const CheckpointDirectory& directory, std::uint64_t step,
                           std::uint64_t generation) {
  const PathAt from = directory.at(step_name(step));
  for (std::uint32_t number = 1; number <= kSameNameMax; ++number) {
    const std::string name = superseded_name(step, generation, number);
    const Result<FileKind> kind = directory.ops().kind_of(directory.at(name));
    if (kind.status().code() == Code::not_found) return AwayName{.name = name};
    if (!kind.ok()) return kind.status();
    if (has_same_files(directory.ops(), from, directory.at(name)))
      return AwayName{.name = name, .is_there = true};
  }
  return Status(Code::already_exists,
                from.text() + ": superseded too often with the same generation");
}

/// For filesystems without hard links: renames the directory itself, through the owner's directory.
Status move_away(const OwnerDirectory& owner, std::uint64_t step, std::uint64_t generation) {
  FileOps& ops = owner.directory().ops();
  const AsideName aside{.purpose = AsideName::Purpose::keep,
                        .step = StepName{.step = step, .superseded_generation = {}},
                        .generation = generation};
  const std::string kept = aside_name(aside);
  const PathAt from = owner.directory().at(step_name(step));
  STOKER_TRY(explain_layers(ops.rename(from, owner.at(kept)), from));
  STOKER_TRY(owner.sync_both());
  ops.reached("checkpoint.kept");
  STOKER_TRY(owner.give_back(kept, aside, /*is_superseded=*/true).status());
  ops.reached("checkpoint.superseded");
  return {};
}

// Steps 8 and 9.
Status seal(FileOps& ops, const PathAt& staging, const StepCommit& commit) {
  STOKER_TRY(create_durable_file(ops, staging / kManifestName, commit.manifest_text, true));
  ops.reached("checkpoint.manifest_written");
  std::vector<std::uint32_t> ranks(commit.manifest.world_size);
  std::iota(ranks.begin(), ranks.end(), 0U);
  if (commit.place) {
    ranks = commit.manifest.places.at(*commit.place).ranks;
    STOKER_TRY(create_durable_file(ops, staging / place_name(*commit.place), "", true));
    ops.reached("checkpoint.place_named");
  }
  for (const std::uint32_t rank : ranks) STOKER_TRY(ops.unlink(staging / part_name(rank)));
  STOKER_TRY(ops.fsync_dir(staging));
  ops.reached("checkpoint.directory_synced");
  return {};
}

}  // namespace

std::string name_in_owner(std::string_view staging) {
  return std::string(staging.substr(staging.find('/') + 1));
}

Status move_latest(const OwnerDirectory& owner, const std::string& name) {
  FileOps& ops = owner.directory().ops();
  const PathAt staged = owner.at(kLatestName);
  static_cast<void>(ops.unlink(staged));  // left by a failed attempt
  STOKER_TRY(ops.symlink(name, staged));
  ops.reached("checkpoint.latest_staged");
  STOKER_TRY(ops.rename(staged, owner.directory().at(kLatestName)));
  ops.reached("checkpoint.latest_moved");
  STOKER_TRY(owner.sync_both());
  ops.reached("checkpoint.latest_synced");
  return {};
}

// 1. Link the files of the old checkpoint into a staged directory and fsync that.  2. Publish it
// under the superseded name, fsync.  3. If `latest` points to the old name, move it.  4. Rename the
// directory with the old name to one that may be removed, fsync, and remove it: its files are still
// linked under the superseded name. An attempt that was interrupted after step 2 is continued
// there. Without hard links the directory is moved into the owner's directory and from there to the
// superseded name.
Status supersede(const OwnerDirectory& owner, std::uint64_t step, std::uint64_t generation) {
  const CheckpointDirectory& directory = owner.directory();
  FileOps& ops = directory.ops();
  const std::string name = step_name(step);
  const PathAt from = directory.at(name);
  STOKER_ASSIGN(const FileKind kind, ops.kind_of(from));
  if (kind != FileKind::directory)
    return Status(Code::already_exists,
                  from.text() + ": not a directory, so not a checkpoint; move it away");
  // The superseded name contains the generation, which must be the right one.
  const Result<CheckpointManifest> present = read_checkpoint_manifest(ops, from);
  if (present.ok() && present->generation != generation)
    return Status(Code::unavailable,
                  from.text() + ": was replaced while this step was being saved");
  STOKER_ASSIGN(const AwayName away, away_name(directory, step, generation));
  if (!away.is_there) {
    const std::string staged = "linked-" + make_token();
    const Status linked = link_all(owner, from, staged);
    if (!linked.ok()) {
      owner.discard(staged);
      return move_away(owner, step, generation);
    }
    STOKER_TRY(owner.publish(staged, away.name));
    ops.reached("checkpoint.superseded");
  }
  STOKER_TRY(owner.sync_both());
  const Result<std::string> latest = ops.read_link(directory.at(kLatestName));
  const bool is_latest = latest.ok() && *latest == name;
  if (is_latest) STOKER_TRY(move_latest(owner, away.name));
  const std::string condemned = remove_name(make_token());
  const Status freed = ops.rename(from, owner.at(condemned));
  if (freed.os_error() == EXDEV) {  // it keeps its name, so the second one is removed
    if (is_latest) STOKER_TRY(move_latest(owner, name));
    STOKER_TRY(ops.rename(directory.at(away.name), owner.at(condemned)));
    STOKER_TRY(owner.sync_both());
    static_cast<void>(owner.remove(condemned));
  }
  STOKER_TRY(explain_layers(freed, from));
  STOKER_TRY(owner.sync_both());
  ops.reached("checkpoint.freed");
  static_cast<void>(owner.remove(condemned));  // if this fails, the next writer's sweep removes it
  return {};
}

// 8. Write and fsync manifest.json, and the name of the place if there are several; remove the part
// manifests.  9. fsync the staging directory; wait until all places have done so.
// 10. Rename it to its final name without replacing; a checkpoint of a rewound run that has this
// name is superseded first.  11. fsync the checkpoint directory and the owner's directory; wait for
// all places.  12. Move `latest`: rename a temporary link over it, then fsync both. Before step 10
// the final name does not exist, and after it all data below it is durable: a reader that sees the
// name sees everything.
Status OwnerDirectory::commit(const StepCommit& commit, CommitStage& stage) const {
  FileOps& ops = directory_.ops();
  const std::uint64_t step = commit.manifest.step;
  const std::string staging = name_in_owner(commit.staging);
  stage = CommitStage::staged;
  STOKER_TRY(seal(ops, at(staging), commit));
  if (commit.before_visible) {
    STOKER_TRY(commit.before_visible());
    ops.reached("checkpoint.all_sealed");
  }
  if (commit.superseded) STOKER_TRY(supersede(*this, step, *commit.superseded));
  if (const Status renamed = publish(staging, step_name(step)); !renamed.ok()) {
    // A call that timed out, or whose reply was lost, may still take effect.
    if (renamed.os_error() == ETIMEDOUT) stage = CommitStage::visible;
    return renamed;
  }
  stage = CommitStage::visible;
  ops.reached("checkpoint.renamed");
  STOKER_TRY(sync_both());
  stage = CommitStage::durable;
  ops.reached("checkpoint.parent_synced");
  if (commit.before_latest) {
    STOKER_TRY(commit.before_latest());
    ops.reached("checkpoint.all_durable");
  }
  STOKER_TRY(move_latest(*this, step_name(step)));
  stage = CommitStage::complete;
  return {};
}

}  // namespace stoker
