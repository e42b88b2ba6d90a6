#include "bench/scratch.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <span>

#include "base/hex.h"
#include "io/files/directories.h"
#include "io/files/filesystem.h"
#include "stoker/units.h"

namespace stoker {
namespace {

constexpr std::string_view kStagedPrefix = ".stoker-bench-new-";
constexpr std::string_view kFilePrefix = ".stoker-bench-file-";
constexpr std::string_view kDirectoryPrefix = ".stoker-bench-dir-";
constexpr std::uint64_t kReserveBytesMax = std::uint64_t{256} << 20;
constexpr std::string_view kLockName = "lock";

/// Returns a unique name such as "1234-89abcdef01234567"; the process number is for people.
Result<std::string> make_private_name() {
  std::array<std::byte, 8> random{};
  if (::getrandom(random.data(), random.size(), 0) != std::ssize(random))
    return Status::from_errno(errno, "getrandom", "");
  return std::to_string(::getpid()) + "-" + format_hex(random);
}

/// Removes a directory, best effort. The lock is removed last, and only if the rest is gone, so
/// that a later sweep finds a directory that was partly removed.
void remove_scratch(FileOps& ops, const PathAt& path) {
  const Result<std::vector<std::string>> names = ops.list(path);
  if (!names.ok()) return;
  bool is_empty = true;
  for (const std::string& name : *names) {
    if (name != kLockName) is_empty &= remove_tree(ops, path / name).ok();
  }
  if (!is_empty) return;
  static_cast<void>(ops.unlink(path / kLockName));
  static_cast<void>(ops.rmdir(path));
}

}  // namespace

Result<ScratchFile> ScratchFile::create(FileOps& ops, const std::string& directory,
                                        const File::Options& options) {
  STOKER_ASSIGN(const std::string name, make_private_name());
  const std::string path = directory + "/" + std::string(kFilePrefix) + name;
  STOKER_ASSIGN(File file, File::create(ops, path, options));
  STOKER_TRY(ops.unlink(path));
  return ScratchFile(std::move(file));
}

std::string ScratchFile::reopen_path() const {
  return "/proc/self/fd/" + std::to_string(file_.buffered_fd());
}

// 1. mkdir under a name that sweeps ignore. 2. Create and lock the lock file in it. 3. Rename it to
// a name that sweeps look for. A directory with the final name and a free lock thus has no owner
// any more: the lock alone decides.
Result<ScratchDirectory> ScratchDirectory::create(FileOps& ops, const std::string& parent) {
  STOKER_ASSIGN(const std::string name, make_private_name());
  STOKER_ASSIGN(const std::shared_ptr<const RootDirectory> root, open_root(ops, parent));
  const PathAt staged(root, std::string(kStagedPrefix) + name);
  const PathAt path(root, std::string(kDirectoryPrefix) + name);
  STOKER_TRY(ops.mkdir(staged));
  const auto give_up = [&](const Status& status) {
    remove_scratch(ops, staged);
    return status;
  };
  Result<UniqueFd> lock = ops.open(staged / kLockName, O_RDWR | O_CREAT | O_EXCL);
  if (!lock.ok()) return give_up(lock.status());
  if (Status status = ops.try_lock(lock->get(), LockMode::exclusive); !status.ok())
    return give_up(status.with_context(staged.text()));
  if (Status status = ops.rename(staged, path); !status.ok()) return give_up(status);
  return ScratchDirectory(ops, path, *std::move(lock));
}

ScratchDirectory::~ScratchDirectory() {
  if (lock_) remove_scratch(*ops_, path_);  // null after a move
}

std::size_t sweep_scratch(FileOps& ops, const std::string& parent) {
  const Result<std::shared_ptr<const RootDirectory>> root = open_root(ops, parent);
  if (!root.ok()) return 0;
  const Result<std::vector<DirectoryName>> names = ops.list_names({*root, ""});
  if (!names.ok()) return 0;
  std::size_t count = 0;
  for (const DirectoryName& name : *names) {
    if (!name.name.starts_with(kDirectoryPrefix) || name.kind != FileKind::directory) continue;
    const PathAt path(*root, name.name);
    const Result<UniqueFd> lock = ops.open(path / kLockName, O_RDWR | O_NONBLOCK);
    if (!lock.ok() || !ops.try_lock(lock->get(), LockMode::exclusive).ok()) continue;
    remove_scratch(ops, path);
    ++count;
  }
  return count;
}

Status check_room(const std::string& directory, std::uint64_t size_bytes, std::string_view flag) {
  struct stat info{};
  if (::stat(directory.c_str(), &info) != 0) return Status::from_errno(errno, "stat", directory);
  if (!S_ISDIR(info.st_mode))
    return Status(Code::invalid_argument, directory + " is not a directory");
  STOKER_ASSIGN(const std::uint64_t free_bytes, free_bytes_of(directory));
  const std::uint64_t reserve_bytes = std::min(size_bytes / 20, kReserveBytesMax);
  if (free_bytes >= reserve_bytes && free_bytes - reserve_bytes >= size_bytes) return {};
  return Status(Code::no_space, directory + " has " + format_bytes(free_bytes) + " free, but " +
                                    std::string(flag) + " " + format_bytes(size_bytes) +
                                    " needs that and a reserve of " + format_bytes(reserve_bytes) +
                                    ": lower " + std::string(flag) +
                                    " or choose another directory");
}

}  // namespace stoker
