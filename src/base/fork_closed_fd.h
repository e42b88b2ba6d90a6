#pragma once

#include <memory>
#include <utility>

#include "base/fork_guard.h"
#include "base/unique_fd.h"

namespace stoker {

/// Has a descriptor closed in children that are forked while this lives. A child would keep what
/// the parent has removed, or hold a lock after its parent has died: a lock belongs to the open
/// file, not to the process.
///
/// In a child the descriptor is closed before fork() returns; whoever owns it there must not close
/// it again, because the number may be somebody else's by then.
///
/// Thread safety: none.
class ClosedInChildren {
 public:
  ClosedInChildren() noexcept = default;
  /// At most 1,024 at a time; what is beyond is closed at exec only.
  explicit ClosedInChildren(int fd);
  ClosedInChildren(ClosedInChildren&& other) noexcept : slot_(std::exchange(other.slot_, -1)) {}
  ClosedInChildren& operator=(ClosedInChildren other) noexcept {
    std::swap(slot_, other.slot_);
    return *this;
  }
  /// To be destroyed before the descriptor is closed: the other way round a fork could close a
  /// number of others.
  ~ClosedInChildren();

 private:
  int slot_ = -1;
};

/// A descriptor that forked children do not keep.
///
/// Thread safety: none.
class ForkClosedFd {
 public:
  explicit ForkClosedFd(UniqueFd fd);
  ForkClosedFd(const ForkClosedFd&) = delete;
  ForkClosedFd& operator=(const ForkClosedFd&) = delete;
  /// Gives up a flock that is held through it, even if a child got hold of the descriptor. In a
  /// child it does nothing.
  ~ForkClosedFd();

  /// -1 in a child.
  int get() const noexcept { return fd_ != nullptr && guard_.is_here() ? fd_->get() : -1; }

 private:
  std::unique_ptr<UniqueFd> fd_;  // let go of in a child, where its number is not ours
  ClosedInChildren slot_;
  ForkGuard guard_;
};

}  // namespace stoker
