#include "checkpoint/directory/owner_directory.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <optional>
#include <utility>
#include <vector>

#include "base/token.h"
#include "checkpoint/catalog/notes.h"
#include "checkpoint/directory/catalog_file.h"
#include "checkpoint/directory/notes_directory.h"
#include "checkpoint/directory/step_commit.h"
#include "checkpoint/manifest/manifest_file.h"
#include "io/files/directories.h"

namespace stoker {
namespace {

/// A fenced writer may still move something into its directory before that is removed, but not for
/// long: it must win a race each time.
constexpr int kRoundsMax = 1000;
/// Limit of superseded checkpoints with the same step and generation.
constexpr std::uint32_t kSameNameMax = 10'000;
constexpr nanoseconds kNotesTimeout = std::chrono::seconds(1);

/// Whether a checkpoint that was put aside is the one that was retired, and has neither a pin nor
/// values in its note. In doubt it stays: the dead writer may have decided before the note was
/// written, and the next retention decides again.
bool may_go(const CheckpointDirectory& directory, const PathAt& place, const AsideName& aside) {
  const Result<CheckpointManifest> manifest = read_checkpoint_manifest(directory.ops(), place);
  if (!manifest.ok() || manifest->generation != aside.generation ||
      manifest->step != aside.step.step)
    return false;
  const Result<StepNotes> notes = read_step_notes(directory, aside.step.step);
  if (!notes.ok()) return false;
  const auto note = notes->find(aside.generation);
  return note == notes->end() || (!note->second.is_pinned && note->second.values.empty());
}

}  // namespace

Status explain_layers(const Status& failure, const PathAt& path) {
  if (failure.os_error() != EXDEV) return failure;
  return {
      Code::unsupported,
      path.text() +
          ": cannot be moved, because it is in a lower layer of an overlay filesystem; copy the "
          "directory and save to the copy",
      EXDEV};
}

Status rename_without_replacing(FileOps& ops, const PathAt& from, const PathAt& to) {
  Status status = ops.rename_noreplace(from, to);
  if (status.code() != Code::unsupported) return status;
  // If the flag is refused (NFS): a plain rename cannot replace a directory that is not empty, and
  // a checkpoint never is.
  return ops.rename(from, to);
}

Status OwnerDirectory::make() const {
  STOKER_TRY(directory_.ops().mkdir(self()));
  return directory_.ops().fsync_dir(directory_.self());
}

Status OwnerDirectory::sync_both() const {
  STOKER_TRY(directory_.ops().fsync_dir(directory_.self()));
  return directory_.ops().fsync_dir(self());
}

Status OwnerDirectory::publish(std::string_view name, std::string_view to) const {
  return rename_without_replacing(directory_.ops(), at(name), directory_.at(to));
}

Result<std::string> OwnerDirectory::give_back(std::string_view name, const AsideName& aside,
                                              bool is_superseded) const {
  std::string to = step_name(aside.step);
  Status published(Code::already_exists, to);
  if (!is_superseded || aside.step.superseded_generation) published = publish(name, to);
  for (std::uint32_t number = 1; published.code() == Code::already_exists && number <= kSameNameMax;
       ++number) {
    to = superseded_name(aside.step.step, aside.generation, number);
    published = publish(name, to);
  }
  STOKER_TRY(published);
  STOKER_TRY(sync_both());
  return to;
}

std::string OwnerDirectory::staging_name(std::uint64_t step, std::uint64_t number) const {
  return name_ + "/" + step_name(step) + "-" + std::to_string(number);
}

void OwnerDirectory::discard_staged(const std::string& staging) const {
  const std::string name = name_in_owner(staging);
  discard(name);
  discard(abandoned_name(name));
}

std::unique_ptr<CatalogKeeper> OwnerDirectory::start_catalog(const CatalogLines& lines) const {
  return std::make_unique<CatalogWriter>(*this, lines);
}

// 1. Rename it into the owner's directory, fsync both.  2. Call may_go(): a process that pinned it
// before step 1 has published the note by now, and one that pins it later finds no checkpoint.
// 3. Rename it to a name that may be removed, fsync: from then on no crash brings it back.  If it
// may not go, it gets its name back.
Result<std::optional<std::string>> OwnerDirectory::retire(const Retirement& retirement) const {
  FileOps& ops = directory_.ops();
  const AsideName aside{.purpose = AsideName::Purpose::retire,
                        .step = retirement.parsed,
                        .generation = retirement.generation};
  const std::string retired = aside_name(aside);
  // With this lock a concurrent pin waits instead of failing; safety does not depend on it.
  const Result<NotesLock> lock = NotesLock::take(directory_, kNotesTimeout);
  static_cast<void>(lock);
  const PathAt place = directory_.at(retirement.name);
  STOKER_TRY(explain_layers(ops.rename(place, at(retired)), place));
  STOKER_TRY(sync_both());
  ops.reached("retention.retired");
  if (!retirement.may_go(read_checkpoint_manifest(ops, at(retired)))) {
    STOKER_TRY(give_back(retired, aside, /*is_superseded=*/false).status());
    ops.reached("retention.given_back");
    return std::optional<std::string>();
  }
  STOKER_ASSIGN(std::string condemned, condemn(retired));
  ops.reached("retention.condemned");
  return std::optional<std::string>(std::move(condemned));
}

Result<std::string> OwnerDirectory::condemn(std::string_view name) const {
  std::string condemned = remove_name(make_token());
  STOKER_TRY(directory_.ops().rename(at(name), at(condemned)));
  STOKER_TRY(directory_.ops().fsync_dir(self()));
  return condemned;
}

Status OwnerDirectory::remove(std::string_view condemned) const {
  FileOps& ops = directory_.ops();
  const PathAt path = at(condemned);
  const Result<std::vector<DirectoryName>> names = ops.list_names(path);
  if (names.status().os_error() == ENOTDIR || names.status().os_error() == ELOOP)
    return remove_tree(ops, path);  // a staged file
  if (!names.ok()) return is_gone(names.status()) ? Status() : names.status();
  Status first;
  for (const DirectoryName& name : *names) {
    const Status status = remove_tree(ops, path / name.name);
    if (first.ok()) first = status;
  }
  STOKER_TRY(first);
  ops.reached("owner.unlinked");
  Status removed = ops.rmdir(path);
  if (!removed.ok() && !is_gone(removed) && removed.os_error() != ENOTEMPTY &&
      removed.os_error() != EEXIST)
    return removed;
  ops.reached("owner.removed");
  return {};
}

void OwnerDirectory::discard(std::string_view name) const {
  const std::string condemned = remove_name(make_token());
  if (directory_.ops().rename(at(name), at(condemned)).ok()) static_cast<void>(remove(condemned));
}

// Fences one other owner. A directory in a lower layer of an overlay cannot be renamed (EXDEV). Its
// writer ran before that layer was created and is dead, so the directory is emptied in place.
Status OwnerDirectory::fence(const std::string& other) const {
  FileOps& ops = directory_.ops();
  const std::string taken = taken_name(make_token());
  const Status renamed = ops.rename(directory_.at(other), at(taken));
  if (renamed.ok() || is_gone(renamed) || renamed.os_error() != EXDEV)
    return is_gone(renamed) && ops.kind_of(self()).ok() ? Status() : renamed;
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(directory_.at(other)));
  for (const DirectoryName& name : names) {
    if (parse_aside_name(name.name))
      return explain_layers(renamed, directory_.at(other) / name.name);
    STOKER_TRY(remove_tree(ops, directory_.at(other) / name.name));
  }
  return ops.rmdir(directory_.at(other));
}

// Moves the contents of a taken directory to this one and removes it: from then on a descriptor of
// it that its writer has kept is useless too.
Status OwnerDirectory::empty(const std::string& taken) const {
  FileOps& ops = directory_.ops();
  for (int round = 0; round < kRoundsMax; ++round) {
    STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(at(taken)));
    for (const DirectoryName& name : names) {
      const std::string unique = make_token();
      const bool is_known = parse_aside_name(name.name) || is_taken_name(name.name);
      const std::string to = is_known ? moved_name(name.name, unique) : remove_name(unique);
      const Status moved = ops.rename(at(taken) / name.name, at(to));
      if (!moved.ok() && !is_gone(moved)) return moved;
    }
    STOKER_TRY(ops.fsync_dir(self()));
    Status removed = ops.rmdir(at(taken));
    if (removed.ok() || (is_gone(removed) && ops.kind_of(self()).ok())) return {};
    if (removed.os_error() != ENOTEMPTY && removed.os_error() != EEXIST) return removed;
  }
  return Status(Code::unavailable, at(taken).text() + ": its writer keeps adding to it");
}

// 1. Move every other owner's directory into this one: from then on its owner finds nothing by
// path.  2. fsync.  3. Take out their contents and remove them: from then on their descriptors are
// useless too. If this writer is stopped now, the next one sweeps what was moved here.
Status OwnerDirectory::take_over() const {
  FileOps& ops = directory_.ops();
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(directory_.self()));
  bool has_fenced = false;
  for (const DirectoryName& name : names) {
    if (!is_owner_name(name.name) || name.name == name_ || name.kind != FileKind::directory)
      continue;
    STOKER_TRY(fence(name.name));
    has_fenced = true;
  }
  if (has_fenced) {
    STOKER_TRY(sync_both());
    ops.reached("takeover.fenced");
  }
  for (bool is_any = true; is_any;) {
    STOKER_ASSIGN(const std::vector<DirectoryName> own, ops.list_names(self()));
    is_any = false;
    for (const DirectoryName& name : own) {
      if (!is_taken_name(name.name) || name.kind != FileKind::directory) continue;
      STOKER_TRY(empty(name.name));
      is_any = true;
    }
  }
  if (has_fenced) ops.reached("takeover.emptied");
  return {};
}

Status OwnerDirectory::settle(const std::string& name) const {
  const std::optional<AsideName> aside = parse_aside_name(name);
  if (!aside) {
    discard(name);
    return {};
  }
  const bool is_kept = aside->purpose == AsideName::Purpose::keep;
  if (is_kept || !may_go(directory_, at(name), *aside))
    return give_back(name, *aside, is_kept).status();
  STOKER_ASSIGN(const std::string condemned, condemn(name));
  static_cast<void>(remove(condemned));
  return {};
}

/// Removes `.trash-*`: checkpoints, or their remains, that version 0.1 had decided to remove.
Status OwnerDirectory::sweep_trash() const {
  STOKER_ASSIGN(const std::vector<DirectoryName> names,
                directory_.ops().list_names(directory_.self()));
  for (const DirectoryName& name : names) {
    if (!is_trash_name(name.name) || name.kind != FileKind::directory) continue;
    const std::string condemned = remove_name(make_token());
    if (directory_.ops().rename(directory_.at(name.name), at(condemned)).ok())
      static_cast<void>(remove(condemned));
  }
  return {};
}

Status OwnerDirectory::sweep() const {
  STOKER_ASSIGN(const std::vector<DirectoryName> names, directory_.ops().list_names(self()));
  Status first;
  for (const DirectoryName& name : names) {
    const Status settled = settle(name.name);
    if (first.ok()) first = settled;
  }
  STOKER_TRY(first);
  STOKER_TRY(sweep_trash());
  directory_.ops().reached("takeover.swept");
  return {};
}

}  // namespace stoker
