#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/clock.h"
#include "base/fork_closed_fd.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// Counts the bytes of all files of a cache, for all processes that share it, in a file that is
/// locked (flock) while one of them adds or removes files.
///
/// The file is the truth only while it says that nobody works on it: a process that dies with the
/// lock leaves its mark, and the next one counts the files again. So does everyone who finds no
/// ledger, or a damaged one.
///
/// Thread safety: none. Each use makes its own, which locks out those of other threads as well.
class CacheLedger {
 public:
  /// Waits for the lock until `deadline`: `unavailable` if another process keeps it.
  static Result<CacheLedger> lock(FileOps& ops, const PathAt& path, Deadline deadline);

  /// The bytes of all files; nothing if they must be counted.
  std::optional<std::uint64_t> used_bytes() const noexcept { return used_bytes_; }
  void set_used_bytes(std::uint64_t bytes) noexcept { used_bytes_ = bytes; }
  void add(std::uint64_t bytes) noexcept { used_bytes_ = used_bytes_.value_or(0) + bytes; }
  void subtract(std::uint64_t bytes) noexcept {
    const std::uint64_t used = used_bytes_.value_or(0);
    used_bytes_ = used > bytes ? used - bytes : 0;
  }

  /// Writes the count and unlocks. Without this, the next holder counts the files.
  Status close() &&;

 private:
  CacheLedger(FileOps& ops, std::unique_ptr<ForkClosedFd> fd) : ops_(&ops), fd_(std::move(fd)) {}
  Status write(bool is_valid);

  FileOps* ops_;
  std::unique_ptr<ForkClosedFd> fd_;
  std::optional<std::uint64_t> used_bytes_;
};

/// Tries to lock until `deadline`, at short intervals: `unavailable` if another holder keeps it. A
/// lock whose holder died is free at once.
Status lock_until(FileOps& ops, int fd, LockMode mode, Deadline deadline);

}  // namespace stoker
