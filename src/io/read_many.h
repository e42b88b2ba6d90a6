/// \file
/// ManyReads: ranges of many files, brought into memory at once.
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

/// A range of a file, and where its bytes belong.
struct ReadRange {
  static constexpr std::uint64_t kToEnd = std::numeric_limits<std::uint64_t>::max();

  std::uint32_t file = 0;  ///< Which of the paths.
  std::uint64_t offset_bytes = 0;
  std::uint64_t size_bytes = kToEnd;
  /// Exactly as long as the range. Without a place of its own (null) it gets one in the memory
  /// that read() is given.
  std::span<std::byte> into = {};
};

struct ReadManyOptions {
  CachePolicy policy = CachePolicy::automatic;
  EngineKind engine = EngineKind::automatic;
  bool sync_for_few = true;  ///< Setting another engine up costs more than a read or two.
  EngineOptions engine_options = {.depth = 128};
  std::size_t piece_bytes = std::size_t{512} << 10;  ///< Longer ranges are read in parallel pieces.
  std::size_t open_files_max = 64;  ///< Kept open from plan() to read(); others are opened twice.
  std::size_t bounce_bytes = std::size_t{16} << 20;  ///< For direct reads into unaligned places.
  /// Asked now and then, on the thread that calls read(): true ends it with `cancelled`.
  std::function<bool()> is_interrupted = {};
  nanoseconds poll = std::chrono::milliseconds(50);  ///< How often, at most.
};

/// Reads many ranges with many requests in flight, whatever files they are in.
///
/// plan() opens every file once and refuses what cannot succeed, before a byte is read; read()
/// brings all ranges, cold ones past the page cache where that pays. A failure names path, offset
/// and length; nothing is begun after it, and of several the first by range is told.
///
/// Thread safety: none. read() makes an engine of its own and destroys it, so a plan works in
/// whichever process it was made in.
class ManyReads {
 public:
  /// `io_error` for a range that ends past the end of its file, `invalid_argument` for what is no
  /// regular file, a range of impossible size or a place of another length.
  static Result<ManyReads> plan(FileOps& ops, std::vector<std::string> paths,
                                std::vector<ReadRange> ranges, ReadManyOptions options);

  /// What read() needs for the ranges without a place of their own: aligned to 4096.
  std::size_t memory_bytes() const noexcept { return memory_bytes_; }

  /// Reads everything. When it has returned, failed or not, no byte of `memory` and of the ranges'
  /// places is written any more.
  Status read(std::span<std::byte> memory);

  std::size_t count() const noexcept { return ranges_.size(); }
  std::uint64_t size_bytes(std::size_t i) const noexcept { return ranges_[i].size_bytes; }
  /// Where range `i` lies once read() has succeeded, with the memory it was given.
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
  std::vector<std::size_t> places_;  // where in the memory the widened range begins
  std::size_t memory_bytes_ = 0;
  std::size_t piece_count_ = 0;
  std::size_t open_count_ = 0;
};

}  // namespace stoker
