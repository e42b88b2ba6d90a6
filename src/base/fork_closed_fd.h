#pragma once

#include <memory>
#include <utility>

#include "base/fork_guard.h"
#include "base/unique_fd.h"

namespace stoker {

/// Closes a descriptor in every child that is forked while this object exists. Otherwise a child
/// would keep a file that the parent has removed, or a lock after its parent has died: a flock
/// belongs to the open file, not to the process.
///
/// In a child the descriptor is closed before fork() returns. Its owner must not close it again
/// there, because the number may have been reused.
///
/// Thread safety: none.
class ClosedInChildren {
 public:
  ClosedInChildren() noexcept = default;
  /// At most 1,024 descriptors are registered at a time; any further one stays open in the child.
  explicit ClosedInChildren(int fd);
  ClosedInChildren(ClosedInChildren&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}
  ClosedInChildren& operator=(ClosedInChildren other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  /// Must run before the descriptor is closed: otherwise a fork in between could close a descriptor
  /// that has reused the number.
  ~ClosedInChildren();

 private:
  int slot_ = -1;
};

/// Owns a descriptor that is closed in forked children.
///
/// Thread safety: none.
class ForkClosedFd {
 public:
  explicit ForkClosedFd(UniqueFd fd);
  ForkClosedFd(const ForkClosedFd&) = delete;
  ForkClosedFd& operator=(const ForkClosedFd&) = delete;
  /// Releases a flock held through the descriptor, even if a child still has the descriptor open,
  /// and closes it. Does nothing in a child.
  ~ForkClosedFd();

  /// Returns -1 in a child.
  int get() const noexcept { return fd_ != nullptr && guard_.is_here() ? fd_->get() : -1; }

 private:
  std::unique_ptr<UniqueFd> fd_;  // leaked in a child, where the number may have been reused
  ClosedInChildren slot_;
  ForkGuard guard_;
};

}  // namespace stoker
