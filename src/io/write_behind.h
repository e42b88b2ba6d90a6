#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>

#include "base/mutex.h"
#include "base/unique_fd.h"
#include "io/engine/arena.h"
#include "io/files/file_ops.h"
#include "stoker/status.h"

namespace stoker {

/// A file that is written sequentially while its bytes are being produced. A separate thread writes
/// full blocks, with direct I/O on local disks, so that the device works while the caller fills the
/// next block, and little is left for the fsync. A file of at most one block is written by the
/// caller's thread in finish().
///
/// Thread safety: none. Between the first full block and finish(), only the thread calls `ops` for
/// this file.
class WriteBehind {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  static constexpr std::size_t kBlockCount = 4;  ///< Being filled, waiting and being written.

  /// `fd` must be open for writing, and its file empty. `ops` must outlive this object.
  WriteBehind(FileOps& ops, UniqueFd fd) : ops_(ops), fd_(std::move(fd)) {}
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;
  /// Waits for the write in progress; discards blocks whose write has not started.
  ~WriteBehind();

  /// Waits while no block is free. A failure is final, and may concern bytes that were appended
  /// earlier.
  Status append(std::span<const std::byte> bytes);
  std::uint64_t size_bytes() const noexcept { return handed_bytes_ + used_bytes_; }

  /// Waits until all bytes are written, sets the exact file size and returns the descriptor, which
  /// the caller must fsync and close. Nothing may be appended afterwards.
  Result<UniqueFd> finish();

 private:
  void work();
  Status hand_over();
  Status write_block(std::span<const std::byte> block, std::uint64_t offset_bytes);
  void begin_direct();
  std::span<std::byte> block(std::uint64_t number) const;

  FileOps& ops_;
  UniqueFd fd_;
  std::optional<MappedArena> memory_;
  std::uint64_t handed_bytes_ = 0;       // in full blocks
  std::size_t used_bytes_ = 0;           // of the block being filled
  std::uint32_t direct_unit_bytes_ = 0;  // 0: through the page cache; set before the thread starts
  Mutex mutex_;
  Condition changed_;
  std::uint64_t handed_ STOKER_GUARDED_BY(mutex_) = 0;  // blocks
  std::uint64_t written_ STOKER_GUARDED_BY(mutex_) = 0;
  bool is_last_ STOKER_GUARDED_BY(mutex_) = false;  // nothing more will be handed over
  Status failure_ STOKER_GUARDED_BY(mutex_);
  std::jthread thread_;  // last: it uses the members above
};

}  // namespace stoker
