#include "dataset/index/derived_file.h"

#include <sys/file.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <memory>
#include <span>
#include <system_error>
#include <thread>
#include <utility>

#include "base/checksum.h"
#include "base/unique_fd.h"
#include "io/files/directories.h"
#include "io/files/lock_file.h"
#include "io/files/publish.h"

namespace stoker {
namespace {

using Take = std::function<Status(const PathAt&)>;
using Build = std::function<Result<std::vector<std::byte>>()>;

constexpr auto kLockPoll = std::chrono::milliseconds(20);

/// The builder's lock, which ends with its process. Unlocked explicitly, not only by close: a child
/// forked meanwhile has the descriptor too, and would keep the lock as long as it runs.
class BuilderLock {
 public:
  static Result<BuilderLock> wait(FileOps& ops, const PathAt& path,
                                  const DerivedFileOptions& options) {
    STOKER_ASSIGN(UniqueFd fd, open_lock_file(ops, path));
    for (;;) {
      const Status status = ops.try_lock(fd.get(), LockMode::exclusive);
      // Without locks several processes may build, and each publishes a complete file.
      if (status.ok() || status.code() == Code::unsupported) return BuilderLock(std::move(fd));
      if (status.code() != Code::unavailable) return status.with_context(path.text());
      if (options.stop.stop_requested())
        return Status(Code::cancelled, "stopped while another process builds " + options.what);
      std::this_thread::sleep_for(kLockPoll);
    }
  }
  BuilderLock(BuilderLock&&) = default;
  BuilderLock& operator=(BuilderLock&&) = delete;
  ~BuilderLock() {
    if (fd_) ::flock(fd_.get(), LOCK_UN);
  }

 private:
  explicit BuilderLock(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

/// Removes what killed builders left. Under the lock no other process stages this file.
void sweep(FileOps& ops, const PathAt& directory, const std::string& name) {
  const Result<std::vector<std::string>> names = ops.list(directory);
  if (!names.ok()) return;
  for (const std::string& found : *names)
    if (found.starts_with(name + ".staged-"))
      static_cast<void>(ops.unlink(directory / found));  // the next builder tries again
}

/// Whether to try another place.
bool is_refused(const Status& status) {
  return status.code() == Code::denied || status.code() == Code::no_space;
}

/// Makes the directory of a place.
Result<PathAt> make_place(FileOps& ops, const DerivedPlace& place) {
  Result<std::shared_ptr<const RootDirectory>> root = open_root(ops, place.root);
  if (root.status().code() == Code::not_found) {
    STOKER_TRY(make_directories(ops, place.root));
    root = open_root(ops, place.root);
  }
  STOKER_TRY(root.status());
  PathAt directory(*std::move(root), place.name);
  STOKER_TRY(make_own_directory(ops, directory));
  return directory;
}

Result<DerivedFile> build_in(const PathAt& directory, const DerivedFileOptions& options,
                             const Take& take, const Build& build) {
  FileOps& ops = options.ops != nullptr ? *options.ops : posix_file_ops();
  const PathAt path = directory / options.name;
  if (!options.rebuild && take(path).ok()) return DerivedFile{.path = path.text()};
  sweep(ops, directory, options.name);
  STOKER_ASSIGN(const std::vector<std::byte> bytes, build());
  STOKER_TRY(publish_file(ops, path, bytes));
  STOKER_TRY(take(path));
  return DerivedFile{.path = path.text(), .is_new = true};
}

/// The existing files, the newest first. A newer file replaces an older one in a place that is not
/// writable; the older one may be damaged in a block that is not checked on opening.
std::vector<PathAt> newest_first(FileOps& ops, const DerivedFileOptions& options) {
  std::vector<std::pair<std::int64_t, PathAt>> found;
  for (const DerivedPlace& place : options.places) {
    Result<std::shared_ptr<const RootDirectory>> root = open_root(ops, place.root);
    if (!root.ok()) continue;
    PathAt path = PathAt(*std::move(root), place.name) / options.name;
    const Result<FileInfo> info = ops.info_of(path);
    if (info.ok()) found.emplace_back(info->modified_ns, std::move(path));
  }
  std::ranges::stable_sort(found, std::greater<>(), [](const auto& file) { return file.first; });
  std::vector<PathAt> paths;
  for (auto& [time, path] : found) paths.push_back(std::move(path));
  return paths;
}

}  // namespace

std::vector<DerivedPlace> derived_places(const ShardSource& source,
                                         const std::string& cache_directory) {
  std::vector<DerivedPlace> places;
  const bool is_local = source.store().is_local();
  if (is_local) places.push_back({.root = source.directory(), .name = ".stoker"});
  const std::string identity = is_local ? "" : source.store().identity_of(source.directory());
  if (!cache_directory.empty() && (is_local || !identity.empty())) {
    std::error_code ignored;
    // No absolute path begins with "object:".
    const std::string name =
        is_local ? std::filesystem::weakly_canonical(source.directory(), ignored).string()
                 : "object:" + identity;
    places.push_back(
        {.root = cache_directory, .name = xxh3_128(std::as_bytes(std::span(name))).hex()});
  }
  return places;
}

Result<DerivedFile> open_derived_file(const DerivedFileOptions& options, const Take& take,
                                      const Build& build) {
  FileOps& ops = options.ops != nullptr ? *options.ops : posix_file_ops();
  if (!options.rebuild)
    for (const PathAt& path : newest_first(ops, options))
      if (take(path).ok()) return DerivedFile{.path = path.text()};
  Status refused;
  if (options.places.empty())
    refused = Status(Code::unsupported, options.what +
                                            " is kept in memory: the dataset is not a local "
                                            "directory; to keep it, name a cache directory (and "
                                            "the store's identity_of() must not be empty)");
  for (const DerivedPlace& place : options.places) {
    const Result<PathAt> directory = make_place(ops, place);
    Result<BuilderLock> lock =
        directory.ok() ? BuilderLock::wait(ops, *directory / (options.name + ".lock"), options)
                       : directory.status();
    // If the place is read-only or full, cannot be made (a home directory that an automounter
    // lacks), or has another object under a needed name, try the next one.
    refused = lock.status();
    if (!lock.ok() && !is_refused(refused) && refused.code() != Code::invalid_argument &&
        refused.code() != Code::not_found)
      return refused;
    if (!lock.ok()) continue;
    Result<DerivedFile> made = build_in(*directory, options, take, build);
    if (made.ok() || !is_refused(made.status())) return made;
    refused = made.status();
  }
  if (options.in_memory || options.places.empty()) {
    STOKER_ASSIGN(std::vector<std::byte> bytes, build());
    return DerivedFile{.is_new = true, .bytes = std::move(bytes), .refused = refused};
  }
  return refused.with_context("no place for " + options.what +
                              (options.places.size() == 1
                                   ? "; make the directory writable or name a cache directory"
                                   : "; make one of its two places writable"));
}

}  // namespace stoker
