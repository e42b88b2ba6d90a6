#include "checkpoint/commit_names.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <vector>

#include "checkpoint/history.h"
#include "checkpoint/lock_record.h"
#include "checkpoint/names.h"
#include "checkpoint/tree_removal.h"

namespace stoker {
namespace {

/// Of checkpoints that bear one step and one generation: somebody has to tell them apart.
constexpr std::uint32_t kSameNameMax = 10'000;

/// A second directory with the same files, staged in the owner's.
Status link_all(FileOps& ops, const std::string& from, const std::string& to) {
  static_cast<void>(remove_tree(ops, to));  // of an attempt that failed
  STOKER_TRY(ops.mkdir(to));
  STOKER_ASSIGN(const std::vector<std::string> names, ops.list(from));
  for (const std::string& name : names) STOKER_TRY(ops.link(from + "/" + name, to + "/" + name));
  return ops.fsync_dir(to);
}

bool is_same_file(FileOps& ops, const std::string& a, const std::string& b) {
  // A FIFO must not be waited for.
  const Result<UniqueFd> first = ops.open(a, O_RDONLY | O_NONBLOCK);
  const Result<UniqueFd> second = ops.open(b, O_RDONLY | O_NONBLOCK);
  struct stat one{};
  struct stat other{};
  return first.ok() && second.ok() && ::fstat(first->get(), &one) == 0 &&
         ::fstat(second->get(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

/// Whether link_all() has made one of the other.
bool has_same_files(FileOps& ops, const std::string& a, const std::string& b) {
  Result<std::vector<std::string>> names = ops.list(a);
  Result<std::vector<std::string>> others = ops.list(b);
  if (!names.ok() || !others.ok() || names->empty()) return false;
  std::ranges::sort(*names);
  std::ranges::sort(*others);
  return *names == *others && std::ranges::all_of(*names, [&](const std::string& name) {
    return is_same_file(ops, a + "/" + name, b + "/" + name);
  });
}

/// Where a superseded checkpoint goes.
struct AwayName {
  std::string name;
  bool is_there = false;  ///< With the same files: of an attempt that was cut short.
};

/// The first name that is free or has these very files. Whatever else has one stays as it is.
Result<AwayName> away_name(const CommitPlaces& places, std::uint64_t step,
                           std::uint64_t generation) {
  const std::string from = places.directory + "/" + step_name(step);
  for (std::uint32_t number = 1; number <= kSameNameMax; ++number) {
    const std::string name = superseded_name(step, generation, number);
    const std::string path = places.directory + "/" + name;
    const Result<FileKind> kind = places.ops.kind_of(path);
    if (kind.status().code() == Code::not_found) return AwayName{.name = name};
    STOKER_TRY(kind.status());
    if (has_same_files(places.ops, from, path)) return AwayName{.name = name, .is_there = true};
  }
  return Status(Code::already_exists, from + ": superseded too often under one generation");
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
// 4. Rename the directory with the old name to trash, fsync, and remove it. An attempt that was cut
// short after step 2 is taken up there.
Status supersede(const CommitPlaces& places, std::uint64_t step, std::uint64_t generation) {
  FileOps& ops = places.ops;
  const std::string from = places.directory + "/" + step_name(step);
  // Nothing is put away under a name that says something else of it.
  const Result<CheckpointManifest> present = read_checkpoint_manifest(ops, from);
  if (present.ok() && present->generation != generation)
    return Status(Code::unavailable, from + ": was replaced while this step was being saved");
  STOKER_ASSIGN(const AwayName away, away_name(places, step, generation));
  const std::string to = places.directory + "/" + away.name;
  const std::string staged = places.owner + "/" + away.name;
  const Result<std::string> latest =
      ops.read_link(places.directory + "/" + std::string(kLatestName));
  const bool is_latest = latest.ok() && *latest == step_name(step);
  if (!away.is_there) {
    const bool is_linked = is_latest && link_all(ops, from, staged).ok();
    STOKER_TRY(rename_without_replacing(ops, is_linked ? staged : from, to));
    ops.reached("checkpoint.superseded");
    if (!is_linked) return ops.fsync_dir(places.directory);
  }
  STOKER_TRY(fsync_places(places));
  if (is_latest) STOKER_TRY(move_latest(places, away.name));
  const std::string trash = places.directory + "/" + trash_name(step_name(step), make_token());
  STOKER_TRY(ops.rename(from, trash));
  STOKER_TRY(ops.fsync_dir(places.directory));
  static_cast<void>(remove_tree(ops, trash));  // else by the next holder's sweep
  return {};
}

}  // namespace stoker
