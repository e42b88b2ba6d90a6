/// \file
/// CheckpointDirectory as a CheckpointStore. Notes are in notes_directory.cc.
#include <utility>

#include "checkpoint/directory/catalog_file.h"
#include "checkpoint/directory/checkpoint_directory.h"
#include "checkpoint/directory/directory_part.h"
#include "checkpoint/directory/owner_directory.h"
#include "checkpoint/directory/step_files.h"
#include "checkpoint/directory/writer_lock.h"
#include "checkpoint/manifest/manifest_file.h"
#include "io/files/filesystem.h"
#include "io/files/text_file.h"

namespace stoker {
namespace {

constexpr std::size_t kPartBytesMax = std::size_t{1} << 30;

}  // namespace

std::shared_ptr<const CheckpointStore> CheckpointDirectory::share() const {
  return std::make_shared<const CheckpointDirectory>(*this);
}

bool CheckpointDirectory::is_where_it_was() const {
  const Result<CheckpointDirectory> there = open(*ops_, path());
  if (!there.ok()) return there.status().code() != Code::not_found;
  const Result<FileInfo> one = ops_->info_of(self());
  const Result<FileInfo> other = ops_->info_of(there->self());
  return !one.ok() || !other.ok() || (one->device == other->device && one->inode == other->inode);
}

Result<bool> CheckpointDirectory::is_there() const {
  const Result<FileInfo> info = ops_->info_of(self());
  if (info.ok()) return info->link_count > 0;
  if (info.status().os_error() == ESTALE) return true;
  return info.status();
}

Result<std::uint64_t> CheckpointDirectory::free_bytes() const {
  return free_bytes_of(path());
}

// Checkpoints ------------------------------------------------------------------------------------

Result<std::vector<StoredStep>> CheckpointDirectory::list_steps() const {
  STOKER_ASSIGN(std::vector<DirectoryName> names, ops_->list_names(self()));
  std::vector<StoredStep> steps;
  steps.reserve(names.size());
  for (DirectoryName& name : names) {
    if (!parse_step_name(name.name)) continue;
    steps.push_back({.name = std::move(name.name),
                     .id = name.inode,
                     .is_checkpoint = name.kind == FileKind::directory});
  }
  return steps;
}

Result<StoredStep> CheckpointDirectory::find_step(std::string_view name) const {
  STOKER_ASSIGN(const FileInfo info, ops_->info_of(at(name)));
  return StoredStep{.name = std::string(name),
                    .id = info.inode,
                    .is_checkpoint = info.kind == FileKind::directory};
}

Result<std::string> CheckpointDirectory::read_latest() const {
  Result<std::string> target = ops_->read_link(at(kLatestName));
  // There is no link, or the name belongs to something else.
  if (target.status().code() == Code::not_found || target.status().code() == Code::invalid_argument)
    return std::string();
  return target;
}

Result<FileInfo> CheckpointDirectory::find_manifest(std::string_view step) const {
  return ops_->info_of(at(step) / kManifestName);
}

Result<CheckpointManifest> CheckpointDirectory::read_manifest(std::string_view step) const {
  return read_checkpoint_manifest(*ops_, at(step));
}

Result<std::unique_ptr<OpenStep>> CheckpointDirectory::open_step(std::string_view name) const {
  return open_step_directory(*ops_, at(name));
}

CatalogLines CheckpointDirectory::read_catalog() const {
  return read_catalog_file(*this);
}

Result<std::vector<ForeignName>> CheckpointDirectory::find_foreign_names() const {
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops_->list_names(self()));
  std::vector<ForeignName> found;
  for (const DirectoryName& name : names) {
    const bool is_for_directory = name.name == kNotesName || is_owner_name(name.name) ||
                                  is_meeting_name(name.name) || is_trash_name(name.name);
    const bool is_for_file = name.name == kLockName || name.name == kCatalogName ||
                             parse_epoch_name(name.name) || is_epoch_claim_name(name.name);
    if (is_for_directory && name.kind != FileKind::directory)
      found.push_back({.name = name.name, .reason = "not a directory"});
    else if (is_for_file && name.kind != FileKind::regular)
      found.push_back({.name = name.name, .reason = "not a regular file"});
    else if (name.name == kLatestName && name.kind != FileKind::symlink)
      found.push_back({.name = name.name,
                       .reason = "not a symbolic link, so saves cannot update it: rename it"});
  }
  return found;
}

// Saving -----------------------------------------------------------------------------------------

Result<std::unique_ptr<StoreLock>> CheckpointDirectory::lock(const LockOptions& options) const {
  if (is_dataset(*ops_, self()))
    return Status(Code::invalid_argument,
                  path() + ": a dataset, not a directory of checkpoints; use another directory");
  if (ops_->kind_of(at(kManifestName)).ok())
    return Status(Code::invalid_argument,
                  path() + ": has a " + std::string(kManifestName) +
                      ", so it is itself a checkpoint or a dataset; use its parent directory");
  STOKER_ASSIGN(std::unique_ptr<WriterLock> lock, WriterLock::acquire(*this, options));
  return std::unique_ptr<StoreLock>(std::move(lock));
}

std::unique_ptr<CheckpointWriter> CheckpointDirectory::make_writer(const StoreLock& lock) const {
  return std::make_unique<OwnerDirectory>(*this, lock.token());
}

std::unique_ptr<StagedPart> CheckpointDirectory::make_part(StageRequest request) const {
  return std::make_unique<DirectoryPart>(*this, std::move(request));
}

Result<CheckpointPart> CheckpointDirectory::read_part(const std::string& staging,
                                                      std::uint32_t rank) const {
  const PathAt path = at(staging) / part_name(rank);
  STOKER_ASSIGN(const std::string text, read_text_file(*ops_, path, kPartBytesMax));
  return parse_checkpoint_part(text, path.text());
}

// 1. Rename the staging directory: from then on rank 0 cannot publish it. Another rank may already
// have done so. If a late rank creates the directory again, it lacks the parts of the ranks that
// abandoned it, and rank 0 needs all parts.  2. fsync the parent directory: the disk may be on a
// server that crashes while the ranks survive. If there is no staging directory, rank 0 has
// published or removed it, or another writer has taken over.
Abandoned CheckpointDirectory::abandon(const std::string& staging) const {
  const Status renamed = ops_->rename(at(staging), at(abandoned_name(staging)));
  if (renamed.ok() || is_abandoned(staging)) {
    const Status synced = ops_->fsync_dir(at(staging).parent());
    ops_->reached("checkpoint.abandoned");
    // Nothing can be published from a directory that is gone.
    const bool is_certain = synced.ok() || synced.code() == Code::not_found;
    return is_certain ? Abandoned::done : Abandoned::unknown;
  }
  return renamed.code() == Code::not_found ? Abandoned::not_there : Abandoned::unknown;
}

bool CheckpointDirectory::is_abandoned(const std::string& staging) const {
  return ops_->info_of(at(abandoned_name(staging))).ok();
}

}  // namespace stoker
