#include "io/range_reader.h"

#include <algorithm>
#include <array>
#include <utility>

namespace stoker {
namespace {

/// Longest wait between two calls of RangeReadOptions::check.
constexpr nanoseconds kCheckSlice = std::chrono::milliseconds(50);
/// A nonzero timeout, so that the source enters the kernel and fetches completions.
constexpr nanoseconds kGlance = std::chrono::microseconds(1);
constexpr std::size_t kReapMax = 64;

}  // namespace

RangeReader::RangeReader(std::unique_ptr<RangeSource> source) : source_(std::move(source)) {
  const std::uint32_t depth = source_->depth_max();
  ranges_.resize(depth);
  pieces_.resize(depth);
  for (std::uint32_t i = depth; i > 0; --i) {
    free_ranges_.push_back(i - 1);
    free_pieces_.push_back(i - 1);
  }
  staged_.reserve(depth);
}

Status RangeReader::read(RangeFeed& feed, const RangeReadOptions& options) {
  is_at_end_ = false;
  const Status status = go(feed, options);
  if (!status.ok()) abandon(feed);
  return status;
}

Status RangeReader::go(RangeFeed& feed, const RangeReadOptions& options) {
  for (;;) {
    if (options.check) STOKER_TRY(options.check());
    stage(feed, options.piece_bytes);
    STOKER_TRY(submit());
    STOKER_ASSIGN(const bool has_work, feed.work_meanwhile());
    const std::size_t in_flight = source_->in_flight();
    if (in_flight == 0) {
      if (is_at_end_ && !has_work) return {};
      continue;
    }
    if (!has_work) {
      STOKER_TRY(reap(feed, std::max<std::size_t>(in_flight / 8, 1), kCheckSlice, options.wait_ns));
    } else if (!is_at_end_) {
      STOKER_TRY(reap(feed, 1, kGlance, options.wait_ns));  // keeps the source supplied
    }
  }
}

/// Turns ranges into requests until the source's queue is full.
void RangeReader::stage(RangeFeed& feed, std::size_t piece_bytes) {
  while (!free_pieces_.empty() && (is_cutting_ || take_range(feed))) cut_piece(piece_bytes);
}

bool RangeReader::take_range(RangeFeed& feed) {
  if (is_at_end_ || free_ranges_.empty()) return false;
  const std::uint32_t slot = free_ranges_.back();
  Range& range = ranges_[slot];
  const RangeFeed::Next next = feed.next(range.plan);
  is_at_end_ = next == RangeFeed::Next::end;
  if (next != RangeFeed::Next::range) return false;
  free_ranges_.pop_back();
  range.pieces_left = 0;
  range.result = static_cast<std::int64_t>(range.plan.request.buffer.size());
  range.failure = {};
  range.is_open = true;
  cutting_ = slot;
  cut_bytes_ = 0;
  is_cutting_ = true;
  return true;
}

/// Pieces end at multiples of piece_bytes in the buffer, which keeps direct reads aligned.
void RangeReader::cut_piece(std::size_t piece_bytes) {
  Range& range = ranges_[cutting_];
  const std::uint32_t tag = free_pieces_.back();
  free_pieces_.pop_back();
  const std::span<std::byte> left = range.plan.request.buffer.subspan(cut_bytes_);
  const std::size_t size = piece_bytes == 0 ? left.size() : std::min(piece_bytes, left.size());
  pieces_[tag] = {
      .range = cutting_, .at_bytes = cut_bytes_, .size_bytes = size, .is_in_flight = true};
  Request request = range.plan.request;
  request.offset_bytes += cut_bytes_;
  request.buffer = left.first(size);
  request.tag = tag;
  staged_.push_back(request);
  ++range.pieces_left;
  cut_bytes_ += size;
  is_cutting_ = size < left.size();
}

Status RangeReader::submit() {
  if (staged_.empty()) return {};
  STOKER_ASSIGN(const std::size_t accepted, source_->submit(staged_));
  staged_.erase(staged_.begin(), staged_.begin() + static_cast<std::ptrdiff_t>(accepted));
  return {};
}

Status RangeReader::reap(RangeFeed& feed, std::size_t count_min, nanoseconds timeout,
                         Counter* wait_ns) {
  std::array<Completion, kReapMax> done;
  const Deadline begin = Clock::now();
  STOKER_ASSIGN(const std::size_t count,
                source_->reap(done, std::min(count_min, done.size()), timeout));
  if (wait_ns != nullptr) wait_ns->add(static_cast<std::uint64_t>((Clock::now() - begin).count()));
  Status status;
  for (std::size_t i = 0; i < count; ++i) {
    Status each = complete(feed, done[i]);  // even after an error: none is in flight any more
    if (status.ok()) status = std::move(each);
  }
  return status;
}

Status RangeReader::complete(RangeFeed& feed, const Completion& completion) {
  Piece& piece = pieces_[completion.tag];
  Range& range = ranges_[piece.range];
  piece.is_in_flight = false;
  free_pieces_.push_back(static_cast<std::uint32_t>(completion.tag));
  if (completion.result < 0) {
    if (range.result >= 0) range.failure = completion.failure;
    if (range.result >= 0) range.result = completion.result;
  } else if (static_cast<std::uint64_t>(completion.result) < piece.size_bytes) {
    // A short piece ends the valid part of the range; a complete one does not.
    range.result =
        std::min(range.result, static_cast<std::int64_t>(piece.at_bytes) + completion.result);
  }
  const bool is_cut = !is_cutting_ || cutting_ != piece.range;
  if (--range.pieces_left > 0 || !is_cut) return {};
  range.is_open = false;
  free_ranges_.push_back(piece.range);
  if (!range.failure.ok()) return feed.came(range.plan, range.failure);
  return feed.came(range.plan, range.plan.slice(range.result));
}

/// Waits until the source no longer uses the feed's memory, however long that takes.
void RangeReader::abandon(RangeFeed& feed) {
  for (const Request& request : staged_) pieces_[request.tag].is_in_flight = false;
  for (std::uint32_t tag = 0; tag < pieces_.size(); ++tag)
    if (pieces_[tag].is_in_flight) static_cast<void>(source_->cancel(tag));
  std::array<Completion, kReapMax> done;
  while (source_ && source_->in_flight() > 0)
    if (!source_->reap(done, 1, kCheckSlice).ok()) source_.reset();  // waits for what is in flight
  free_ranges_.clear();
  free_pieces_.clear();
  for (std::uint32_t i = 0; i < ranges_.size(); ++i) {
    if (std::exchange(ranges_[i].is_open, false)) feed.dropped(ranges_[i].plan);
    free_ranges_.push_back(i);
    pieces_[i].is_in_flight = false;
    free_pieces_.push_back(i);
  }
  staged_.clear();
  is_cutting_ = false;
}

}  // namespace stoker
