#include "io/files/publish.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <string>
#include <utility>

#include "io/files/exact_transfer.h"

namespace stoker {
namespace {

constexpr int kTreeDepthMax = 64;

/// Returns a name that no other publisher uses: two writers of one path must not share a staging
/// file.
PathAt staged_path(const PathAt& path) {
  static std::atomic<std::uint64_t> serial{0};  // relaxed: only uniqueness matters
  return path.parent() / (std::string(path.last()) + ".staged-" + std::to_string(::getpid()) + "-" +
                          std::to_string(serial.fetch_add(1, std::memory_order_relaxed)));
}

/// Creates a staging file. A name may be taken: in a container that was killed and restarted, the
/// process may have the same number, and its old staging files still exist.
Result<UniqueFd> create_staged(FileOps& ops, const PathAt& path, PathAt& staged) {
  constexpr int kAttemptsMax = 100;
  for (int attempt = 1;; ++attempt) {
    staged = staged_path(path);
    Result<UniqueFd> fd = ops.open(staged, O_WRONLY | O_CREAT | O_EXCL);
    if (fd.status().code() != Code::already_exists || attempt == kAttemptsMax) return fd;
  }
}

/// Step 3 of FilePublisher::commit.
Status switch_name(FileOps& ops, const PathAt& staged, const PathAt& path, IfExists if_exists) {
  if (if_exists == IfExists::replace) return ops.rename(staged, path);
  Status status = ops.rename_noreplace(staged, path);
  if (status.code() != Code::unsupported) return status;
  // If the flag is refused (NFS), use a hard link, which does not replace either. Failing to remove
  // the private name afterwards is not an error.
  STOKER_TRY(ops.link(staged, path));
  static_cast<void>(ops.unlink(staged));
  return {};
}

Status fsync_file(FileOps& ops, const PathAt& path) {
  STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK));
  STOKER_TRY(ops.fsync(fd.get()));
  return ops.close(std::move(fd));
}

/// Syncs children first, so that a directory is synced after everything it names.
Status fsync_tree(FileOps& ops, const PathAt& directory, int depth) {
  if (depth > kTreeDepthMax)
    return Status(Code::invalid_argument, directory.text() + ": directories are nested too deeply");
  STOKER_ASSIGN(const std::vector<DirectoryName> names, ops.list_names(directory));
  for (const DirectoryName& name : names) {
    const PathAt path = directory / name.name;
    if (name.kind == FileKind::directory) STOKER_TRY(fsync_tree(ops, path, depth + 1));
    if (name.kind == FileKind::regular) STOKER_TRY(fsync_file(ops, path));
  }
  return ops.fsync_dir(directory);
}

Status rename_without_replacing(FileOps& ops, const PathAt& from, const PathAt& to) {
  Status status = ops.rename_noreplace(from, to);
  if (status.code() != Code::unsupported) return status;
  // If the flag is refused (NFS), a plain rename can replace only an empty directory, which loses
  // no data.
  return ops.rename(from, to);
}

}  // namespace

std::string parent_of(const std::string& path) {
  return PathAt(path).parent().text();
}

Result<FilePublisher> FilePublisher::create(FileOps& ops, const PathAt& path) {
  FilePublisher file(ops, path);
  Result<UniqueFd> fd = create_staged(ops, path, file.staged_);
  if (!fd.ok()) return fd.status();
  file.fd_ = *std::move(fd);
  file.is_staged_ = true;
  return file;
}

FilePublisher::FilePublisher(FilePublisher&& other) noexcept
    : ops_(other.ops_),
      path_(std::move(other.path_)),
      staged_(std::move(other.staged_)),
      fd_(std::move(other.fd_)),
      size_bytes_(other.size_bytes_),
      is_staged_(std::exchange(other.is_staged_, false)) {}

FilePublisher::~FilePublisher() {
  fd_ = UniqueFd();
  // Best effort: the error to report is the one that led here.
  if (is_staged_) static_cast<void>(ops_->unlink(staged_));
}

Status FilePublisher::append(std::span<const std::byte> data) {
  STOKER_TRY(write_exactly(*ops_, fd_.get(), size_bytes_, data));
  size_bytes_ += data.size();
  return {};
}

Status FilePublisher::sync() {
  ops_->reached("publish_file.staged");
  STOKER_TRY(ops_->fsync(fd_.get()));
  ops_->reached("publish_file.synced");
  return ops_->close(std::move(fd_));
}

// 1. Write the bytes under a private name (append).  2. fsync them.  3. Rename to `path`, with or
// without replacing.  4. fsync the parent. A crash between any two steps leaves the old file or the
// new one, never a mix (docs/durability.md). An error returns at once: fsync is never retried,
// because the kernel may have dropped the dirty pages when it reported the first failure.
Status FilePublisher::commit(IfExists if_exists) && {
  STOKER_TRY(sync());
  STOKER_TRY(switch_name(*ops_, staged_, path_, if_exists));
  is_staged_ = false;
  ops_->reached("publish_file.switched");
  STOKER_TRY(ops_->fsync_dir(path_.parent()));
  ops_->reached("publish_file.durable");
  return {};
}

Status publish_file(FileOps& ops, const PathAt& path, std::span<const std::byte> data,
                    IfExists if_exists) {
  const auto publish = [&]() -> Status {
    STOKER_ASSIGN(FilePublisher file, FilePublisher::create(ops, path));
    STOKER_TRY(file.append(data));
    return std::move(file).commit(if_exists);
  };
  return publish().with_context("publish " + path.text());
}

// 1. fsync every file and directory, bottom up.  2. Rename without replacing.  3. fsync the parent.
// Before step 2 the final name does not exist; after it, everything below it is durable, so a
// reader that sees the name sees the whole directory, even if step 3 fails.
Status publish_directory(FileOps& ops, const PathAt& staged, const PathAt& path) {
  const std::string context = "publish " + path.text();
  STOKER_TRY(fsync_tree(ops, staged, 0).with_context(context));
  ops.reached("publish_directory.synced");
  STOKER_TRY(rename_without_replacing(ops, staged, path).with_context(context));
  ops.reached("publish_directory.renamed");
  STOKER_TRY(ops.fsync_dir(path.parent()).with_context(context));
  if (staged.parent().text() != path.parent().text())
    STOKER_TRY(ops.fsync_dir(staged.parent()).with_context(context));
  ops.reached("publish_directory.durable");
  return {};
}

}  // namespace stoker
