#include "io/open_below.h"

#include <fcntl.h>
#include <linux/openat2.h>
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

/// A kernel before 5.6 has no such call, and the sandbox of a container may not know it.
bool is_missing(int error) {
  return error == ENOSYS || error == EPERM;
}

int by_openat2(int root_fd, const std::string& name, int flags) {
  open_how how{};
  how.flags = static_cast<std::uint64_t>(static_cast<unsigned>(flags));
  how.mode = (flags & O_CREAT) != 0 ? kMode : 0;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(::syscall(SYS_openat2, root_fd, name.c_str(), &how, sizeof how));
}

Result<UniqueFd> by_components(int root_fd, std::string_view name, int flags) {
  UniqueFd directory;
  int at = root_fd;
  for (std::size_t slash = name.find('/'); slash != std::string_view::npos;
       slash = name.find('/')) {
    const std::string component(name.substr(0, slash));
    UniqueFd next(::openat(at, component.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    // With O_DIRECTORY a link is ENOTDIR: told as the call above tells it.
    if (!next) {
      const int error = errno;
      const bool is_link =
          error == ENOTDIR &&
          UniqueFd(::openat(at, component.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK))
                  .get() < 0 &&
          errno == ELOOP;
      return refused(is_link ? ELOOP : error);
    }
    directory = std::move(next);
    at = directory.get();
    name.remove_prefix(slash + 1);
  }
  UniqueFd fd(::openat(at, std::string(name).c_str(), flags | O_NOFOLLOW, kMode));
  if (!fd) return refused(errno);
  return fd;
}

}  // namespace

Result<UniqueFd> open_below(int root_fd, std::string_view name, int flags, LookupBelow lookup) {
  flags |= O_CLOEXEC;
  if (name.empty()) {
    UniqueFd fd(::openat(root_fd, ".", flags));
    if (!fd) return refused(errno);
    return fd;
  }
  if (!is_plain(name)) return refused(EINVAL);
  // relaxed: a flag on its own, and finding it out twice does no harm.
  static std::atomic<bool> has_openat2{true};
  if (lookup == LookupBelow::automatic && has_openat2.load(std::memory_order_relaxed)) {
    UniqueFd fd(by_openat2(root_fd, std::string(name), flags));
    if (fd) return fd;
    if (!is_missing(errno)) return refused(errno);
    // EPERM may be the file's own answer: the directory itself has none.
    const int error = errno;
    if (UniqueFd(by_openat2(root_fd, ".", O_PATH | O_CLOEXEC))) return refused(error);
    has_openat2.store(false, std::memory_order_relaxed);
  }
  return by_components(root_fd, name, flags);
}

}  // namespace stoker
