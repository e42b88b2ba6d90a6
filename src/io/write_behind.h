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

/// A file that is written from front to back while its bytes are still being made. Full blocks go
/// to a thread of its own and past the page cache where that pays, so that the device works while
/// the caller fills the next one, and little is left to do for the fsync. What fits into one block
/// is one write, by the caller.
///
/// Thread safety: none. Between the first full block and finish() `ops` is called by the thread,
/// and by nobody else on behalf of this file.
class WriteBehind {
 public:
  static constexpr std::size_t kBlockBytes = std::size_t{1} << 20;
  static constexpr std::size_t kBlockCount = 4;  ///< Being filled, waiting and being written.

  /// `fd` is open for writing, and its file is empty.
  WriteBehind(FileOps& ops, UniqueFd fd) : ops_(ops), fd_(std::move(fd)) {}
  WriteBehind(const WriteBehind&) = delete;
  WriteBehind& operator=(const WriteBehind&) = delete;
  /// Waits for the write that is under way; what is not begun is forgotten.
  ~WriteBehind();

  /// Waits while all blocks are on their way. A failure is final; it may be that of a block that
  /// was appended earlier.
  Status append(std::span<const std::byte> bytes);
  std::uint64_t size_bytes() const noexcept { return handed_bytes_ + used_bytes_; }

  /// Waits until everything is written, gives the file its exact size, and hands the descriptor
  /// back: to be fsynced and closed. Nothing may be appended afterwards.
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
