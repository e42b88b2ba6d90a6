#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/clock.h"
#include "base/counters.h"
#include "io/engine/range_source.h"
#include "io/files/file.h"
#include "stoker/status.h"

namespace stoker {

/// The ranges that a RangeReader reads, and who is told of them. Called on the reader's thread.
class RangeFeed {
 public:
  enum class Next : std::uint8_t {
    range,  ///< `plan` is the next one.
    later,  ///< Not before one that is in flight has come: memory or descriptors are lacking.
    end,    ///< There are no more.
  };

  virtual ~RangeFeed() = default;

  /// Plans the next range. `plan.request.tag` is the feed's to choose: it comes back in
  /// came().
  virtual Next next(ReadPlan& plan) = 0;
  /// A range is there: its bytes, or why they are not. What is not OK ends the read.
  virtual Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) = 0;
  /// The read has ended before this range came. Its memory is written no more.
  virtual void dropped(const ReadPlan& /*plan*/) {}

  /// Does a part of what else there is to do on this thread, while the device works. True if there
  /// is more that can be done now.
  virtual Result<bool> work_meanwhile() { return false; }
};

struct RangeReadOptions {
  std::size_t piece_bytes = 0;  ///< Longer ranges are read in parallel pieces; 0: none is.
  /// Asked about every 50 ms or more often. What is not OK ends the read.
  std::function<Status()> check = {};
  Counter* wait_ns = nullptr;  ///< Gets the time in which there was nothing to do but to wait.
};

/// Reads many ranges through a source: keeps it busy, cuts long ranges, puts their pieces together,
/// and ends early without leaving anything in flight. Loader, checkpoints and io.read_many all read
/// through it; a store or a device plugs in below it, as a RangeSource.
///
/// Thread safety: none.
class RangeReader {
 public:
  explicit RangeReader(std::unique_ptr<RangeSource> source);

  /// Reads all that `feed` has. However it ends, nothing is in flight any more, and each range that
  /// the feed has planned has come or was dropped.
  Status read(RangeFeed& feed, const RangeReadOptions& options);

  /// False after a failure of the source itself, which then is no more: make another reader.
  bool is_usable() const noexcept { return source_ != nullptr; }

 private:
  /// A range in flight.
  struct Range {
    ReadPlan plan;
    std::uint32_t pieces_left = 0;
    std::int64_t result = 0;  // bytes from the buffer's begin on that are there, or an errno
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
  // All have room for what can be in flight, and are used again.
  std::vector<Range> ranges_;
  std::vector<std::uint32_t> free_ranges_;
  std::vector<Piece> pieces_;  // by the tag that the source sees
  std::vector<std::uint32_t> free_pieces_;
  std::vector<Request> staged_;  // the next to submit
  std::uint32_t cutting_ = 0;    // the range that is cut into pieces
  std::uint64_t cut_bytes_ = 0;  // as far as it is cut
  bool is_cutting_ = false;
  bool is_at_end_ = false;
};

}  // namespace stoker
