#pragma once

#include <memory>

#include "base/fork_guard.h"
#include "base/unique_fd.h"

namespace stoker {

/// A descriptor that forked children do not keep. A lock belongs to the open file, not to the
/// process: a child that inherits the descriptor would hold the lock after its parent has died.
///
/// In a child the descriptor is closed before fork() returns, and the destructor does nothing: the
/// number may be somebody else's by then.
///
/// Thread safety: none.
class ForkClosedFd {
 public:
  /// At most 1,024 at a time; what is beyond is closed at exec only.
  explicit ForkClosedFd(UniqueFd fd);
  ForkClosedFd(const ForkClosedFd&) = delete;
  ForkClosedFd& operator=(const ForkClosedFd&) = delete;
  /// Gives up a flock that is held through it, even if a child got hold of the descriptor.
  ~ForkClosedFd();

  /// -1 in a child.
  int get() const noexcept { return fd_ != nullptr && guard_.is_here() ? fd_->get() : -1; }

 private:
  std::unique_ptr<UniqueFd> fd_;  // let go of in a child, where its number is not ours
  int slot_ = -1;
  ForkGuard guard_;
};

}  // namespace stoker
