#include "dataset/derived_file.h"

#include <fcntl.h>
#include <sys/file.h>

#include <chrono>
#include <filesystem>
#include <span>
#include <system_error>
#include <thread>

#include "base/checksum.h"
#include "base/unique_fd.h"
#include "io/publish.h"

namespace stoker {
namespace {

using Take = std::function<Status(const std::string&)>;
using Build = std::function<Result<std::vector<std::byte>>()>;

constexpr auto kLockPoll = std::chrono::milliseconds(20);

/// The one builder's lock, which dies with its process. Unlocked by name and not by close alone: a
/// child forked meanwhile has the descriptor too, and would keep the lock as long as it lives.
class BuilderLock {
 public:
  static Result<BuilderLock> wait(FileOps& ops, const std::string& path,
                                  const DerivedFileOptions& options) {
    STOKER_ASSIGN(UniqueFd fd, ops.open(path, O_RDWR | O_CREAT));
    for (;;) {
      const Status status = ops.try_lock(fd.get(), LockMode::exclusive);
      // Without locks several may build, and each publishes a whole file.
      if (status.ok() || status.code() == Code::unsupported) return BuilderLock(std::move(fd));
      if (status.code() != Code::unavailable) return status.with_context(path);
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

/// What builders that were killed left behind. Under the lock nobody else stages this file.
void sweep(FileOps& ops, const std::string& directory, const std::string& name) {
  const Result<std::vector<std::string>> names = ops.list(directory);
  if (!names.ok()) return;
  for (const std::string& found : *names)
    if (found.starts_with(name + ".staged-"))
      static_cast<void>(ops.unlink(directory + "/" + found));  // the next builder tries again
}

Result<DerivedFile> build_in(const std::string& directory, const DerivedFileOptions& options,
                             const Take& take, const Build& build) {
  FileOps& ops = options.ops != nullptr ? *options.ops : posix_file_ops();
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) return Status::from_errno(failed.value(), "mkdir", directory);
  const std::string path = directory + "/" + options.name;
  STOKER_ASSIGN(const BuilderLock lock, BuilderLock::wait(ops, path + ".lock", options));
  if (!options.rebuild && take(path).ok()) return DerivedFile{.path = path};
  sweep(ops, directory, options.name);
  STOKER_ASSIGN(const std::vector<std::byte> bytes, build());
  STOKER_TRY(publish_file(ops, path, bytes));
  STOKER_TRY(take(path));
  return DerivedFile{.path = path, .is_new = true};
}

}  // namespace

std::vector<std::string> derived_places(const std::string& dataset_directory,
                                        const std::string& cache_directory) {
  std::vector<std::string> places = {dataset_directory + "/.stoker"};
  if (!cache_directory.empty()) {
    std::error_code ignored;
    const std::string absolute =
        std::filesystem::weakly_canonical(dataset_directory, ignored).string();
    places.push_back(cache_directory + "/" + xxh3_128(std::as_bytes(std::span(absolute))).hex());
  }
  return places;
}

Result<DerivedFile> open_derived_file(const DerivedFileOptions& options, const Take& take,
                                      const Build& build) {
  for (const std::string& directory : options.places) {
    const std::string path = directory + "/" + options.name;
    if (!options.rebuild && take(path).ok()) return DerivedFile{.path = path};
  }
  Status refused;
  for (const std::string& directory : options.places) {
    Result<DerivedFile> made = build_in(directory, options, take, build);
    const Code code = made.status().code();
    if (made.ok() || (code != Code::denied && code != Code::no_space)) return made;
    refused = made.status();  // a read-only or full place: the cache directory is next
  }
  return refused.with_context("no place for " + options.what +
                              (options.places.size() == 1
                                   ? "; make the directory writable or name a cache directory"
                                   : "; make one of its two places writable"));
}

}  // namespace stoker
