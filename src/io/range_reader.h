#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "io/files/file.h"
#include "stoker/range_source.h"
#include "stoker/status.h"

namespace stoker {

/// Supplies the ranges that a RangeReader reads and receives the results. All methods are called on
/// the reader's thread.
class RangeFeed {
 public:
  enum class Next : std::uint8_t {
    range,  ///< `plan` is the next range.
    later,  ///< No memory or descriptor is free; ask again after a range in flight has completed.
    end,    ///< There are no more ranges.
  };

  virtual ~RangeFeed() = default;

  /// Plans the next range. The feed may set `plan.request.tag`; came() receives it unchanged.
  virtual Next next(ReadPlan& plan) = 0;
  /// A range has completed, with its bytes or an error. Returning an error ends the read.
  virtual Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) = 0;
  /// The read ended before this range completed. Its memory is no longer written.
  virtual void dropped(const ReadPlan& /*plan*/) {}

  /// Does a part of the other work of this thread while the device works. Returns true if there is
  /// more to do now.
  virtual Result<bool> work_meanwhile() { return false; }
};

struct RangeReadOptions {
  std::size_t piece_bytes = 0;  ///< Longer ranges are read in parallel pieces; 0: never.
  /// Called about every 50 ms or more often. An error that it returns ends the read.
  std::function<Status()> check = {};
  Counter* wait_ns = nullptr;  ///< Adds up the time spent waiting for completions.
};

/// Reads many ranges through a source: keeps it busy, splits long ranges into pieces, and on an
/// early end leaves nothing in flight. LoaderRun, checkpoints and io.read_many all read through it;
/// stores provide a RangeSource.
///
/// Thread safety: none.
class RangeReader {
 public:
  explicit RangeReader(std::unique_ptr<RangeSource> source);

  /// Reads all ranges of `feed`. On return, with or without an error, nothing is in flight, and
  /// each planned range was passed to came() or dropped().
  Status read(RangeFeed& feed, const RangeReadOptions& options);

  /// False if the source failed and had to be destroyed: make another reader.
  bool is_usable() const noexcept { return source_ != nullptr; }

 private:
  /// A range in flight.
  struct Range {
    ReadPlan plan;
    std::uint32_t pieces_left = 0;
    std::int64_t result = 0;  // valid bytes from the start of the buffer, or a negative errno
    Status failure = {};      // what the source says of a failure
    bool is_open = false;
  };
  /// One request: a part of a range's buffer.
  struct Piece {
    std::uint32_t range = 0;
    std::uint64_t at_bytes = 0;
    std::uint64_t size_bytes = 0;
    bool is_in_flight = false;
  };

  Status go(RangeFeed& feed, const RangeReadOptions& options);
  void stage(RangeFeed& feed, std::size_t piece_bytes);
  bool take_range(RangeFeed& feed);
  void cut_piece(std::size_t piece_bytes);
  Status submit();
  Status reap(RangeFeed& feed, std::size_t count_min, nanoseconds timeout, Counter* wait_ns);
  Status complete(RangeFeed& feed, const Completion& completion);
  void abandon(RangeFeed& feed);

  std::unique_ptr<RangeSource> source_;
  // All have room for the maximum in flight, and are reused.
  std::vector<Range> ranges_;
  std::vector<std::uint32_t> free_ranges_;
  std::vector<Piece> pieces_;  // indexed by the tag that the source sees
  std::vector<std::uint32_t> free_pieces_;
  std::vector<Request> staged_;  // the next to submit
  std::uint32_t cutting_ = 0;    // the range that is being split into pieces
  std::uint64_t cut_bytes_ = 0;  // the part of it that is split already
  bool is_cutting_ = false;
  bool is_at_end_ = false;
};

}  // namespace stoker
