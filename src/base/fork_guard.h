#pragma once

#include <cstdint>
#include <string_view>

#include "stoker/status.h"

namespace stoker {

/// Returns the number of forks between this process and the one that started the program. It costs
/// one load, where getpid(2) would be a system call on every submit.
std::uint64_t fork_generation() noexcept;

/// Remembers the process that created it, so that an object with threads or kernel state can refuse
/// to work in a forked child, where its threads do not exist and its rings belong to the parent.
///
/// Thread safety: immutable.
class ForkGuard {
 public:
  bool is_here() const noexcept { return fork_generation() == made_in_; }

  /// Returns OK in the process that created the guard; `unsupported`, naming `what`, in a child.
  Status check(std::string_view what) const;

 private:
  std::uint64_t made_in_ = fork_generation();
};

}  // namespace stoker
