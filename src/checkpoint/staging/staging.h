#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/mutex.h"
#include "checkpoint/staging/layout.h"
#include "stoker/status.h"

namespace stoker {

/// Memory for this layout as a whole, each file at a boundary that direct I/O accepts.
std::uint64_t staging_bytes(const CheckpointLayout& layout) noexcept;

/// Hands the chunks of one save from the threads that copy to the thread that writes, in file order
/// and each as soon as it is filled. Memory for the whole layout makes an arena with every chunk in
/// its place; less makes a ring, in which fillers wait until the writer has released a chunk.
///
/// Thread safety: every method may be called from any thread. `layout` and `memory` are borrowed.
class Staging {
 public:
  /// `memory` holds at least two chunks or staging_bytes().
  Staging(const CheckpointLayout& layout, std::span<std::byte> memory);

  /// A chunk with its bytes. `memory` goes on to the next boundary, so that a direct write of the
  /// file's tail can be padded in place.
  struct Chunk {
    std::size_t index = 0;  ///< Into the layout's chunks.
    std::span<std::byte> memory = {};
    std::size_t size_bytes = 0;
  };

  bool is_ring() const noexcept { return is_ring_; }
  /// In an arena: where a chunk lies, filled or not.
  Chunk at(std::size_t index) const noexcept;

  /// The next chunk to fill, in file order; empty once all were given out or somebody has failed.
  std::optional<Chunk> next_to_fill();
  void filled(const Chunk& chunk);

  /// The next chunk, if it is filled; empty if it is not.
  std::optional<Chunk> try_take();
  /// Waits for it. Empty when all have been taken, the save has failed, or `deadline` passed.
  std::optional<Chunk> take(Deadline deadline);
  /// A ring's memory may be filled again. In an arena chunks stay as they are.
  void release(const Chunk& chunk);

  /// Ends the save for both sides; the first reason stays.
  void fail(Status status);
  Status status() const;
  /// The bytes of all chunks that were filled.
  std::uint64_t filled_bytes() const;

 private:
  std::optional<Chunk> take_next() STOKER_REQUIRES(mutex_);

  const CheckpointLayout& layout_;
  const std::span<std::byte> memory_;
  bool is_ring_ = false;
  std::vector<std::uint64_t> file_offsets_;  // in an arena

  mutable Mutex mutex_;
  Condition filled_some_;
  Condition released_some_;
  std::size_t next_ STOKER_GUARDED_BY(mutex_) = 0;
  std::size_t taken_ STOKER_GUARDED_BY(mutex_) = 0;
  std::uint64_t filled_bytes_ STOKER_GUARDED_BY(mutex_) = 0;
  std::map<std::size_t, Chunk> ready_ STOKER_GUARDED_BY(mutex_);  // by index
  std::vector<std::span<std::byte>> free_ STOKER_GUARDED_BY(mutex_);
  Status failure_ STOKER_GUARDED_BY(mutex_);
};

}  // namespace stoker
