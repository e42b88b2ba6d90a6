#include "dataset/pack/pack_upload.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <span>
#include <utility>
#include <vector>

#include "base/checksum.h"
#include "base/mutex.h"
#include "base/work_together.h"
#include "dataset/shards/dataset_manifest.h"
#include "dataset/shards/shard_files.h"
#include "io/files/directories.h"
#include "stoker/copy.h"
#include "store/local_store.h"

namespace stoker {
namespace {

/// Copies files, several at a time. The first failure stops the others.
class Copies {
 public:
  Copies(std::string directory, const StorePlace& folder, std::vector<ManifestFile> files,
         const PackUploadOptions& options)
      : directory_(std::move(directory)),
        folder_(folder),
        files_(std::move(files)),
        options_(options) {
    for (const ManifestFile& file : files_) size_bytes_ += file.size_bytes;
  }

  Status run() {
    work_together(std::min<std::size_t>(std::max(options_.objects_in_flight, 1U), files_.size()),
                  [this] { work(); });
    MutexLock lock(mutex_);
    return failure_;
  }

  Status copy(const std::string& name) {
    return copy_objects({local_store(), directory_ + "/" + name},
                        {folder_.store, internal::key_in(folder_.key, name)},
                        {.objects_in_flight = 1,
                         .is_interrupted =
                             [this] {
                               return has_failed_.load(std::memory_order_relaxed) ||
                                      options_.stop.stop_requested();
                             }})
        .status();
  }

 private:
  void work() {
    for (;;) {
      // Relaxed: only the number is shared.
      const std::size_t next = next_.fetch_add(1, std::memory_order_relaxed);
      if (next >= files_.size() || has_failed_.load(std::memory_order_relaxed)) return;
      const Status status = copy(files_[next].name);
      MutexLock lock(mutex_);
      if (!status.ok()) {
        // A copy that was stopped because another failed is not the error to report.
        if (failure_.ok() || failure_.code() == Code::cancelled) failure_ = status;
        has_failed_.store(true, std::memory_order_relaxed);  // a hint: no order is needed
        return;
      }
      done_bytes_ += files_[next].size_bytes;
      if (options_.progress) options_.progress(done_bytes_, size_bytes_);
    }
  }

  const std::string directory_;
  const StorePlace& folder_;
  const std::vector<ManifestFile> files_;
  const PackUploadOptions& options_;
  std::uint64_t size_bytes_ = 0;
  std::atomic<std::size_t> next_{0};
  std::atomic<bool> has_failed_{false};
  Mutex mutex_;
  Status failure_ STOKER_GUARDED_BY(mutex_);
  std::uint64_t done_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
};

}  // namespace

std::string pack_staging_of(const std::string& directory, const std::string& destination) {
  return directory + "/pack-" + xxh3_128(std::as_bytes(std::span(destination))).hex();
}

Status check_vacant(const StorePlace& folder) {
  // Nothing is sent before there are bytes.
  STOKER_TRY(folder.store->upload(internal::key_in(folder.key, kManifestName)).status());
  std::string found;
  const Status listed =
      folder.store->list(folder.key, [&](const std::string& name, ObjectStore::Kind /*kind*/) {
        found = name;
        return false;
      });
  if (listed.code() == Code::not_found && listed.os_error() == ENOENT) return {};
  STOKER_TRY(listed);
  if (found.empty()) return {};
  return {Code::already_exists,
          "the destination has \"" + found + "\" already; name a folder without objects", EEXIST};
}

Status upload_packed(FileOps& ops, const std::string& directory, const StorePlace& folder,
                     const PackUploadOptions& options) {
  STOKER_ASSIGN(const Manifest manifest, read_manifest(directory));
  std::vector<ManifestFile> files = manifest.files;
  for (const ManifestShard& shard : manifest.shards) files.push_back(shard.file);
  Copies copies(directory, folder, std::move(files), options);
  STOKER_TRY(copies.run());
  STOKER_TRY(copies.copy(std::string(kManifestName)));
  return remove_tree(ops, directory);
}

}  // namespace stoker
