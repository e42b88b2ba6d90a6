#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <set>
#include <span>
#include <vector>

#include "base/unique_fd.h"

namespace stoker::testing {

/// Memory, zero and costing nothing until it is touched.
///
/// Thread safety: none.
class MappedMemory {
 public:
  /// Private; or, over a descriptor, what all see who have it.
  explicit MappedMemory(std::size_t size_bytes, int fd = -1);
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;
  ~MappedMemory();

  std::span<std::byte> bytes() const { return bytes_; }

 private:
  std::span<std::byte> bytes_;
};

/// A file in memory that a forked child shares, and that a loop device can be put over.
class MemoryFile {
 public:
  explicit MemoryFile(std::size_t size_bytes);

  int fd() const { return fd_.get(); }
  std::span<std::byte> bytes() const { return memory_.bytes(); }

 private:
  UniqueFd fd_;
  MappedMemory memory_;
};

/// What reached a disk: a block write with its bytes, or a barrier.
struct DiskEvent {
  std::uint64_t offset_bytes = 0;
  std::vector<std::byte> data = {};  ///< None: a flush of all writes before it.

  bool is_flush() const { return data.empty(); }
};

/// The bytes of a disk, and a tape of all that was done to it. One process, forked from the one
/// that made the tape, serves the disk; the other reads the tape and changes the disk while nobody
/// else uses it.
///
/// Thread safety: one writer, in either process, at a time; event_count(), fail_*() and
/// failed_count() at any time.
class DiskTape {
 public:
  explicit DiskTape(std::size_t size_bytes);

  std::size_t size_bytes() const { return image_.bytes().size(); }
  std::span<std::byte> image() const { return image_.bytes(); }
  int image_fd() const { return image_.fd(); }

  /// Does it and puts it on the tape. 0, or the errno to answer.
  int write(std::uint64_t offset_bytes, std::span<const std::byte> data);
  int flush();

  /// The write, or the flush, after this number of others is answered with EIO and not done.
  void fail_write(std::int64_t after) { shared().write_countdown = after; }
  void fail_flush(std::int64_t after) { shared().flush_countdown = after; }
  /// After this number of other writes every write and every flush is answered so.
  void break_down(std::int64_t after);
  void heal();
  std::uint64_t failed_count() const { return shared().failed_count; }

  std::uint64_t event_count() const { return shared().event_count; }
  std::vector<DiskEvent> events() const;

  // While nobody uses the disk, and not on the tape:
  /// From now on the disk has these bytes.
  void settle(std::uint64_t offset_bytes, std::span<const std::byte> data);
  /// It has them until undo().
  void lay(std::uint64_t offset_bytes, std::span<const std::byte> data);
  /// Wipes the tape, and makes the disk as it is now the one that undo() goes back to.
  void keep();
  /// Wipes the tape, and takes back all that was done, on the tape or past it.
  void undo();

 private:
  static constexpr std::size_t kEventsMax = std::size_t{1} << 18;
  static constexpr std::size_t kDataBytesMax = std::size_t{1} << 30;
  static constexpr std::int64_t kNever = -1;

  // A count that is seen says that what it counts is there: hence the default order.
  struct Shared {
    std::atomic<std::uint64_t> event_count = 0;
    std::atomic<std::uint64_t> data_bytes = 0;
    std::atomic<std::int64_t> write_countdown = kNever;
    std::atomic<std::int64_t> flush_countdown = kNever;
    std::atomic<bool> is_sticky = false;
    std::atomic<std::uint64_t> failed_count = 0;
  };
  struct Entry {
    std::uint64_t offset_bytes;
    std::uint64_t size_bytes;
    std::uint64_t data_at;
  };

  Shared& shared() const;
  std::span<Entry> entries() const;
  bool fails(std::atomic<std::int64_t>& countdown);
  bool put(std::uint64_t offset_bytes, std::span<const std::byte> data);
  /// Copies every stretch in which the two differ.
  void copy_changes(std::span<const std::byte> from, std::span<std::byte> to);

  MemoryFile image_;
  MappedMemory kept_;
  MemoryFile shared_;
  MemoryFile entries_;
  MemoryFile data_;
  std::set<std::uint64_t> stretches_;  ///< Those that were ever more than a hole.
};

}  // namespace stoker::testing
