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

/// Returns the memory needed for the whole layout, with each file aligned for direct I/O.
std::uint64_t staging_bytes(const CheckpointLayout& layout) noexcept;

/// Passes the chunks of one save from the copying threads to the writing thread, in file order,
/// each as soon as it is filled. With memory for the whole layout it is an arena, in which every
/// chunk has its own place; with less it is a ring, in which the copying threads wait until the
/// writer has released a chunk.
///
/// Thread safety: every method may be called from any thread. `layout` and `memory` are borrowed.
class Staging {
 public:
  /// `memory` must have at least two chunks, or staging_bytes().
  Staging(const CheckpointLayout& layout, std::span<std::byte> memory);

  /// A chunk with its bytes. `memory` extends to the next alignment boundary, so that a direct
  /// write of the end of the file can be padded in place.
  struct Chunk {
    std::size_t index = 0;  ///< Index into the layout's chunks.
    std::span<std::byte> memory = {};
    std::size_t size_bytes = 0;
  };

  bool is_ring() const noexcept { return is_ring_; }
  /// Returns the memory of all chunks.
  std::span<const std::byte> memory() const noexcept { return memory_; }
  /// Returns a chunk of an arena, filled or not.
  Chunk at(std::size_t index) const noexcept;

  /// Returns the next chunk to fill, in file order; nothing once all were given out or the save has
  /// failed. In a ring it waits for memory.
  std::optional<Chunk> next_to_fill();
  /// The same, but returns nothing as well if it would have to wait.
  std::optional<Chunk> try_next_to_fill();
  void filled(const Chunk& chunk);

  /// Returns the next chunk to write; nothing if it is not filled yet.
  std::optional<Chunk> try_take();
  /// Waits for the next chunk to write. Returns nothing once all were taken, the save has failed,
  /// or `deadline` has passed.
  std::optional<Chunk> take(Deadline deadline);
  /// Makes the chunk's memory available again in a ring; does nothing in an arena.
  void release(const Chunk& chunk);

  /// Ends the save for both sides; the first error is kept.
  void fail(Status status);
  Status status() const;
  /// Returns the number of bytes in all chunks that were filled.
  std::uint64_t filled_bytes() const;

 private:
  std::optional<Chunk> give_next() STOKER_REQUIRES(mutex_);
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
