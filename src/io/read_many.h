/// \file
/// ManyReads: reads ranges of many files in one call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "io/engine/engine.h"
#include "io/files/file.h"
#include "stoker/status.h"

namespace stoker {

/// A range of a file and its destination.
struct ReadRange {
  static constexpr std::uint64_t kToEnd = std::numeric_limits<std::uint64_t>::max();

  std::uint32_t file = 0;  ///< Index into the paths.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = kToEnd;
  /// Destination, exactly as long as the range. If its pointer is null, the range is placed in the
  /// memory that read() is given.
  std::span<std::byte> into = {};
};

struct ReadManyOptions {
  CachePolicy policy = CachePolicy::automatic;
  EngineKind engine = EngineKind::automatic;
  bool sync_for_few = true;  ///< Use `sync` for one or two pieces: set-up of others costs more.
  EngineOptions engine_options = {.depth = 128};
  std::size_t piece_bytes = std::size_t{512} << 10;  ///< Longer ranges are read in parallel pieces.
  std::size_t open_files_max = 64;  ///< Kept open from plan() to read(); others are opened twice.
  std::size_t bounce_bytes = std::size_t{16} << 20;  ///< For direct reads to unaligned memory.
  /// Called periodically on the thread that called read(). Return true to end with `cancelled`.
  std::function<bool()> is_interrupted = {};
  nanoseconds poll = std::chrono::milliseconds(50);  ///< Minimum interval.
};

/// Reads many ranges of any number of files with many requests in flight.
///
/// plan() opens every file once and refuses ranges that cannot succeed, before a byte is read;
/// read() reads all ranges, uncached ones with direct I/O where that is faster. An error names
/// path, offset and length. No request is started after a failure; of several failures, the one
/// with the lowest range index is returned.
///
/// Thread safety: none. read() makes and destroys its own engine, so this also works in a forked
/// child.
class ManyReads {
 public:
  /// `io_error` for a range that ends past the end of its file; `invalid_argument` for a file that
  /// is not regular, a file index that does not exist, or a destination of another length.
  static Result<ManyReads> plan(FileOps& ops, std::vector<std::string> paths,
                                std::vector<ReadRange> ranges, ReadManyOptions options);

  /// Returns the memory that read() needs for the ranges without a destination; it must be aligned
  /// to 4096.
  std::size_t memory_bytes() const noexcept { return memory_bytes_; }

  /// Reads all ranges. After it has returned, with or without an error, `memory` and the
  /// destinations are no longer written.
  Status read(std::span<std::byte> memory);

  std::size_t count() const noexcept { return ranges_.size(); }
  std::uint64_t size_bytes(std::size_t i) const noexcept { return ranges_[i].size_bytes; }
  /// Returns the bytes of range `i` after read(memory) has succeeded.
  std::span<std::byte> bytes(std::size_t i, std::span<std::byte> memory) const noexcept;

 private:
  class Run;

  /// A file as plan() saw it. `file` is empty while it is closed.
  struct Source {
    std::string path;
    std::optional<File> file = {};
    std::uint64_t size_bytes = 0;
    DirectAlignment alignment = {};
    bool was_opened = false;
    std::size_t ranges_left = 0;
  };

  ManyReads(FileOps& ops, ReadManyOptions options) : ops_(&ops), options_(std::move(options)) {}
  Status open(Source& source) const;
  Status place(ReadRange& range);
  Status with_place(const Status& status, const ReadRange& range) const;

  FileOps* ops_;
  ReadManyOptions options_;
  std::vector<Source> sources_;
  std::vector<ReadRange> ranges_;
  std::vector<std::size_t> places_;  // offset of the widened range in the memory
  std::size_t memory_bytes_ = 0;
  std::size_t piece_count_ = 0;
  std::size_t open_count_ = 0;
};

}  // namespace stoker
