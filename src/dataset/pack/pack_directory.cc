#include "dataset/pack/pack_directory.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>

#include "dataset/pack/pack_part.h"
#include "dataset/pack/pack_paths.h"
#include "io/files/directories.h"
#include "io/files/lock_file.h"
#include "store/local_store.h"

namespace stoker::internal {
namespace {

constexpr int kLockTries = 16;

}  // namespace

// A pack that withdraws removes the lock file while it holds the lock. A process that had already
// opened the file then locks a file without a name, which excludes nobody. So the name must still
// be that of the locked file.
Result<UniqueFd> lock_pack(FileOps& ops, const PathAt& directory, LockMode mode) {
  const PathAt path = directory / ".stoker/pack.lock";
  for (int attempt = 0; attempt < kLockTries; ++attempt) {
    Result<UniqueFd> lock = open_lock_file(ops, path);
    if (lock.status().code() == Code::not_found) {  // its directory was removed too
      STOKER_TRY(make_own_directory(ops, directory / ".stoker"));
      continue;
    }
    STOKER_TRY(lock.status());
    const Status status = ops.try_lock(lock->get(), mode);
    if (status.code() == Code::unavailable) break;
    STOKER_TRY(status);
    const Result<FileInfo> named = ops.info_of(path);
    if (!named.ok() && named.status().code() != Code::not_found) return named.status();
    struct stat info{};
    if (named.ok() && ::fstat(lock->get(), &info) == 0 && named->device == info.st_dev &&
        named->inode == info.st_ino)
      return lock;
  }
  return Status(Code::unavailable,
                directory.text() +
                    ": another stoker process uses it; wait for it to end, or choose another "
                    "directory");
}

Result<PackReport> find_finished(FileOps& ops, const PathAt& directory, const PackJob& job) {
  STOKER_ASSIGN(const std::string text,
                read_own_file(directory / kManifestName, kManifestBytesMax));
  const Result<Manifest> parsed = parse_manifest(text);
  if (!parsed.ok()) return parsed.status().with_context(directory.text());
  const Manifest& manifest = *parsed;
  for (const ManifestShard& shard : manifest.shards) {
    // Follows links: a finished shard may have been moved to another disk.
    const std::string path = (directory / shard.file.name).text();
    const Result<ObjectStore::Entry> entry = local_store()->look(path);
    if (!entry.ok() || entry->info.size_bytes != shard.file.size_bytes)
      return Status(Code::corrupt, path +
                                       ": missing, or its size differs from the manifest; "
                                       "remove the directory and pack again");
  }
  remove_parts(ops, directory, job);
  return report_of(manifest);
}

PackReport report_of(const Manifest& manifest) {
  return {.format = manifest.format,
          .shard_count = manifest.shards.size(),
          .sample_count = manifest.sample_count(),
          .size_bytes = manifest.size_bytes(),
          .shards_found = manifest.shards.size(),
          .is_complete = true};
}

void remove_parts(FileOps& ops, const PathAt& directory, const PackJob& job) {
  for (std::uint64_t i = 0; i < job.shard_count; ++i)
    remove_pack_part(ops, directory, job.shard_name(i));
  static_cast<void>(ops.rmdir(pack_parts_directory(directory)));
  const PathAt inflated = directory / ".stoker" / kInflatedName;
  if (ops.rmdir(inflated).os_error() == ENOTEMPTY) static_cast<void>(remove_tree(ops, inflated));
}

}  // namespace stoker::internal
