#include "checkpoint/directory/lock_epochs.h"

#include <fcntl.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "checkpoint/manifest/manifest_file.h"
#include "checkpoint/manifest/names.h"
#include "io/files/text_file.h"

namespace stoker {

Result<LockEpoch> LockEpochs::greatest(std::uint64_t before) const {
  STOKER_ASSIGN(const std::vector<DirectoryName> names,
                directory_.ops().list_names(directory_.self()));
  LockEpoch found;
  for (const DirectoryName& name : names) {
    const std::optional<std::uint64_t> number = parse_epoch_name(name.name);
    if (number && *number < before && name.kind == FileKind::regular)
      found.number = std::max(found.number, *number);
  }
  if (found.number == 0) return found;
  const PathAt path = directory_.at(epoch_name(found.number));
  const Result<std::string> text = read_text_file(directory_.ops(), path, kLockRecordBytes);
  if (text.ok()) found.record = parse_lock_record(*text);
  return found;
}

/// Returns create()'s result for a name that is taken: nothing if it is another writer's epoch, an
/// error if it is not a regular file.
Result<std::optional<UniqueFd>> LockEpochs::taken(const PathAt& epoch) const {
  const Result<FileKind> kind = directory_.ops().kind_of(epoch);
  if (!kind.ok() || *kind == FileKind::regular) return std::optional<UniqueFd>();
  return Status(Code::invalid_argument,
                epoch.text() + ": not a regular file, so not a lock file; remove it");
}

// 1. Write and fsync a private file.  2. Link it to the epoch's name, which fails if that is taken.
// Over NFS a reply may be lost and the call repeated, so its result does not decide: the claim has
// succeeded if both names lead to the same file.  3. Remove the private name. Without hard links
// the epoch is created exclusively. A writer that has become the holder meanwhile removes the
// private file; then there is nothing to link, and the claim has failed. A claim that fails, as on
// a full disk, removes the file that it has created.
Result<std::optional<UniqueFd>> LockEpochs::create(std::uint64_t number,
                                                   const LockRecord& record) const {
  FileOps& ops = directory_.ops();
  const PathAt epoch = directory_.at(epoch_name(number));
  const PathAt claim = directory_.at(epoch_claim_name(record.token));
  static_cast<void>(ops.unlink(claim));  // left by a failed attempt: the token is ours alone
  STOKER_ASSIGN(UniqueFd fd, ops.open(claim, O_RDWR | O_CREAT | O_EXCL));
  if (const Status written = write(fd.get(), record); !written.ok()) {
    static_cast<void>(ops.unlink(claim));
    return written.with_context(claim.text());
  }
  const Result<FileInfo> own = ops.info_of(claim);
  if (is_gone(own.status())) return std::optional<UniqueFd>();
  if (!own.ok()) {
    static_cast<void>(ops.unlink(claim));
    return own.status();
  }
  const Status linked = ops.link(claim, epoch);
  const Result<FileInfo> info = ops.info_of(epoch);
  const bool has_won = info.ok() && info->device == own->device && info->inode == own->inode;
  static_cast<void>(ops.unlink(claim));
  if (has_won) return kept(number, std::move(fd), ops.fsync_dir(directory_.self()));
  if (is_gone(linked)) return std::optional<UniqueFd>();
  if (linked.ok() || linked.code() == Code::already_exists) return taken(epoch);
  if (linked.code() != Code::unsupported && linked.code() != Code::denied) return linked;
  Result<UniqueFd> created = ops.open(epoch, O_RDWR | O_CREAT | O_EXCL);
  if (created.status().code() == Code::already_exists) return taken(epoch);
  if (!created.ok()) return created.status();
  Status written = write(created->get(), record).with_context(epoch.text());
  if (written.ok()) written = ops.fsync_dir(directory_.self());
  return kept(number, *std::move(created), written);
}

/// Returns create()'s result for an epoch that was created. If it is not durable, removes it:
/// nobody else creates a file of that name while there is a greater epoch, or this one.
Result<std::optional<UniqueFd>> LockEpochs::kept(std::uint64_t number, UniqueFd fd,
                                                 const Status& durable) const {
  if (durable.ok()) return std::optional<UniqueFd>(std::move(fd));
  remove(number);
  return durable;
}

void LockEpochs::remove(std::uint64_t number) const {
  static_cast<void>(directory_.ops().unlink(directory_.at(epoch_name(number))));
}

Status LockEpochs::write(int fd, const LockRecord& record) const {
  STOKER_TRY(write_text(directory_.ops(), fd, format_lock_record(record)));
  return directory_.ops().fsync(fd);
}

void LockEpochs::remove_before(std::uint64_t number) const {
  FileOps& ops = directory_.ops();
  const Result<std::vector<DirectoryName>> names = ops.list_names(directory_.self());
  if (!names.ok()) return;
  for (const DirectoryName& name : *names) {
    if (name.kind != FileKind::regular) continue;
    const std::optional<std::uint64_t> epoch = parse_epoch_name(name.name);
    if ((epoch && *epoch < number) || is_epoch_claim_name(name.name))
      static_cast<void>(ops.unlink(directory_.at(name.name)));
  }
}

}  // namespace stoker
