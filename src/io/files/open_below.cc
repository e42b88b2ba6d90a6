#include "io/files/open_below.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <string>

namespace stoker {
namespace {

constexpr unsigned kMode = 0644;

Status refused(int error) {
  return Status::from_errno(error, "open", "");
}

bool is_plain(std::string_view name) {
  while (true) {
    const std::size_t slash = name.find('/');
    const std::string_view component = name.substr(0, slash);
    if (component.empty() || component == "." || component == "..") return false;
    if (slash == std::string_view::npos) return true;
    name.remove_prefix(slash + 1);
  }
}

/// Whether openat2 is missing: kernels before 5.6 lack it, and a container's sandbox may not know
/// it.
bool is_missing(int error) {
  return error == ENOSYS || error == EPERM;
}

int by_openat2(int root_fd, const std::string& name, int flags, Mounts mounts) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags));
  how.mode = (flags & O_CREAT) != 0 ? kMode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  if (mounts == Mounts::stay) how.resolve |= RESOLVE_NO_XDEV;
  return static_cast<int>(::syscall(SYS_openat2, root_fd, name.c_str(), &how, sizeof how));
}

/// The mount that a file is on. Kernels before 5.8 do not report the mount; a bind mount then
/// cannot be told from the filesystem it shows.
struct MountedOn {
  std::uint64_t mount = 0;
  dev_t device = 0;

  friend bool operator==(const MountedOn&, const MountedOn&) = default;
};

Result<MountedOn> mounted_on(int fd) {
  struct statx info{};
  if (::statx(fd, "", AT_EMPTY_PATH, STATX_MNT_ID, &info) == 0 &&
      (info.stx_mask & STATX_MNT_ID) != 0)
    return MountedOn{.mount = info.stx_mnt_id};
  struct stat plain{};
  if (::fstat(fd, &plain) != 0) return refused(errno);
  return MountedOn{.device = plain.st_dev};
}

Status check_same_mount(int root_fd, int fd, Mounts mounts) {
  if (mounts == Mounts::cross) return {};
  STOKER_ASSIGN(const MountedOn root, mounted_on(root_fd));
  STOKER_ASSIGN(const MountedOn here, mounted_on(fd));
  return root == here ? Status() : refused(EXDEV);
}

Result<UniqueFd> by_components(int root_fd, std::string_view name, int flags, Mounts mounts) {
  UniqueFd directory;
  int at = root_fd;
  for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/')) {
    const std::string component(name.substr(0, slash));
    UniqueFd next(::openat(at, component.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // With O_DIRECTORY a link fails with ENOTDIR: report ELOOP, as openat2 does.
    if (!next) {
      const int error = errno;
      const bool is_link =
          error == ENOTDIR &&
          UniqueFd(::openat(at, component.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK))
                  .get() < 0 &&
          errno == ELOOP;
      return refused(is_link ? ELOOP : error);
    }
    STOKER_TRY(check_same_mount(root_fd, next.get(), mounts));
    directory = std::move(next);
    at = directory.get();
    name.remove_prefix(slash + 1);
  }
  UniqueFd fd(::openat(at, std::string(name).c_str(), flags | O_NOFOLLOW, kMode));
  if (!fd) return refused(errno);
  STOKER_TRY(check_same_mount(root_fd, fd.get(), mounts));
  return fd;
}

}  // namespace

Result<UniqueFd> open_below(int root_fd, std::string_view name, int flags, LookupBelow lookup,
                            Mounts mounts) {
  flags |= O_CLOEXEC;
  if (name.empty()) {
    UniqueFd fd(::openat(root_fd, ".", flags));
    if (!fd) return refused(errno);
    return fd;
  }
  if (!is_plain(name)) return refused(EINVAL);
  // relaxed: an independent flag, and probing twice does no harm.
  static std::atomic<bool> has_openat2{true};
  if (lookup == LookupBelow::automatic && has_openat2.load(std::memory_order_relaxed)) {
    UniqueFd fd(by_openat2(root_fd, std::string(name), flags, mounts));
    if (fd) return fd;
    if (!is_missing(errno)) return refused(errno);
    // EPERM may come from the file itself: try the directory, which cannot cause it.
    const int error = errno;
    if (UniqueFd(by_openat2(root_fd, ".", O_PATH | O_CLOEXEC, Mounts::cross)))
      return refused(error);
    has_openat2.store(false, std::memory_order_relaxed);
  }
  return by_components(root_fd, name, flags, mounts);
}

}  // namespace stoker
