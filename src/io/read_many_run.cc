#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <tuple>

#include "base/rounding.h"
#include "io/engine/buffer_pool.h"
#include "io/range_reader.h"
#include "io/read_many.h"

namespace stoker {

/// The state of one call of read().
class ManyReads::Run final : private RangeFeed {
 public:
  Run(ManyReads& reads, std::span<std::byte> memory) : reads_(reads), memory_(memory) {
    order_.reserve(reads.ranges_.size());
    for (std::size_t i = 0; i < reads.ranges_.size(); ++i)
      if (reads.ranges_[i].size_bytes > 0) order_.push_back(i);
    // By file, so that each is open for as short a time as possible.
    std::sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
      const ReadRange& left = reads.ranges_[a];
      const ReadRange& right = reads.ranges_[b];
      return std::tie(left.file, left.offset_bytes, a) <
             std::tie(right.file, right.offset_bytes, b);
    });
    pieces_left_.resize(reads.ranges_.size());
  }

  Status run() {
    if (order_.empty()) return {};
    EngineKind kind = reads_.options_.engine;
    if (reads_.options_.sync_for_few && reads_.piece_count_ <= 2) kind = EngineKind::sync;
    EngineOptions options = reads_.options_.engine_options;
    options.depth = std::min<std::uint32_t>(
        options.depth,
        static_cast<std::uint32_t>(std::min<std::size_t>(reads_.piece_count_, 4096)));
    STOKER_ASSIGN(std::unique_ptr<Engine> engine, make_engine(kind, options));
    pieces_.resize(engine->depth_max());
    free_.resize(pieces_.size());
    std::iota(free_.begin(), free_.end(), std::size_t{0});
    next_poll_ = deadline_after(reads_.options_.poll);
    RangeReader reader(std::move(engine));
    STOKER_TRY(reader.read(*this, {.check = [this] { return check(); }}));
    return failed_;
  }

 private:
  /// A part of a range that is in flight.
  struct Piece {
    std::size_t range = 0;
    Lease bounce;
    std::span<std::byte> target;  // set only if the piece bounces
  };

  bool done() const { return next_ == order_.size(); }

  void fail(std::size_t range, const Status& status) {
    if (!failed_.ok() && failed_range_ <= range) return;
    failed_ = reads_.with_place(status, reads_.ranges_[range]);
    failed_range_ = range;
  }

  Status check() {
    if (!reads_.options_.is_interrupted || Clock::now() < next_poll_) return {};
    next_poll_ = deadline_after(reads_.options_.poll);
    return reads_.options_.is_interrupted() ? Status(Code::cancelled, "read_many: interrupted")
                                            : Status();
  }

  /// After a failure no range is started, but those in flight are waited for: of several failures,
  /// the one with the lowest range index is returned.
  Next next(ReadPlan& plan) override {
    if (done() || !failed_.ok()) return Next::end;
    if (free_.empty()) return Next::later;
    const std::size_t range = order_[next_];
    const Result<bool> added = plan_piece(range, plan);
    if (added.ok()) return *added ? Next::range : Next::later;
    fail(range, added.status());
    return Next::end;
  }

  /// Opens a file again. It may have been replaced since plan() assigned the places: it must be at
  /// least as long and need no larger alignment.
  Status reopen(Source& source) const {
    STOKER_TRY(reads_.open(source));
    if (source.file->size_bytes() >= source.size_bytes &&
        source.file->alignment().offset_bytes <= source.alignment.offset_bytes &&
        source.file->alignment().memory_bytes <= source.alignment.memory_bytes)
      return {};
    source.file.reset();
    return Status(Code::io_error, "the file was replaced or shortened while it was being read");
  }

  /// Plans the next piece of a range. Returns false if it needs memory that is still in use.
  Result<bool> plan_piece(std::size_t index, ReadPlan& plan) {
    const ReadRange& range = reads_.ranges_[index];
    Source& source = reads_.sources_[range.file];
    if (!source.file) STOKER_TRY(reopen(source));
    const std::uint64_t begin = range.offset_bytes + done_bytes_;
    const std::uint64_t cut = reads_.options_.piece_bytes;
    const std::uint64_t end =
        std::min(range.offset_bytes + range.size_bytes, round_down(begin, cut) + cut);
    const std::size_t size = end - begin;
    Piece& piece = pieces_[free_.back()];
    piece.range = index;
    STOKER_ASSIGN(const IoPath path, source.file->read_path_for(begin, size));
    STOKER_ASSIGN(const std::span<std::byte> room, room_for(index, begin, size, path, piece));
    if (room.empty()) return false;
    STOKER_ASSIGN(plan, source.file->plan_read(begin, size, room, path));
    plan.request.tag = free_.back();
    free_.pop_back();
    ++pieces_left_[index];
    done_bytes_ += size;
    if (done_bytes_ == range.size_bytes) {
      done_bytes_ = 0;
      ++next_;
    }
    return true;
  }

  /// Returns the memory that [begin, begin + size) is read into: the destination itself if the path
  /// allows it. Empty if the piece must bounce and the pool has no free buffer.
  Result<std::span<std::byte>> room_for(std::size_t index, std::uint64_t begin, std::size_t size,
                                        IoPath path, Piece& piece) {
    const ReadRange& range = reads_.ranges_[index];
    const Source& source = reads_.sources_[range.file];
    const std::uint64_t unit = source.alignment.offset_bytes;
    const bool is_direct = path == IoPath::direct;
    piece.target = {};
    if (range.into.data() == nullptr) {
      const std::uint64_t first = is_direct ? round_down(begin, unit) : begin;
      const std::size_t at = reads_.places_[index] + first - round_down(range.offset_bytes, unit);
      return memory_.subspan(at);
    }
    const std::span<std::byte> target = range.into.subspan(begin - range.offset_bytes, size);
    const auto address = reinterpret_cast<std::uintptr_t>(target.data());
    const bool is_aligned =
        begin % unit == 0 && size % unit == 0 && address % source.alignment.memory_bytes == 0;
    if (!is_direct || is_aligned) return target;
    if (!bounce_) {
      const std::size_t budget =
          std::max(reads_.options_.bounce_bytes, 2 * reads_.options_.piece_bytes);
      STOKER_ASSIGN(bounce_, BufferPool::make({.budget_bytes = budget, .touch = false}));
    }
    Result<Lease> lease = bounce_->try_lease(source.file->scratch_bytes(begin, size));
    if (lease.status().code() == Code::unavailable) return std::span<std::byte>();
    if (!lease.ok()) return lease.status();
    piece.bounce = *std::move(lease);
    piece.target = target;
    return piece.bounce.bytes();
  }

  Status came(const ReadPlan& plan, const Result<std::span<std::byte>>& bytes) override {
    Piece& piece = pieces_[plan.request.tag];
    Source& source = reads_.sources_[reads_.ranges_[piece.range].file];
    if (bytes.ok()) {
      if (!piece.target.empty())
        std::memcpy(piece.target.data(), bytes->data(), piece.target.size());
      source.file->settle(plan);
    } else {
      fail(piece.range, bytes.status());
    }
    piece.bounce = {};
    free_.push_back(plan.request.tag);
    const bool has_more = !done() && order_[next_] == piece.range;
    if (--pieces_left_[piece.range] == 0 && !has_more && --source.ranges_left == 0)
      source.file.reset();
    return {};
  }

  ManyReads& reads_;
  const std::span<std::byte> memory_;
  std::vector<std::size_t> order_;
  std::size_t next_ = 0;                    // in order_
  std::uint64_t done_bytes_ = 0;            // of that range, already planned
  std::vector<std::uint32_t> pieces_left_;  // in flight, by range
  std::vector<Piece> pieces_;               // by tag
  std::vector<std::size_t> free_;           // tags
  std::optional<BufferPool> bounce_;
  Status failed_;
  std::size_t failed_range_ = 0;
  Deadline next_poll_;
};

Status ManyReads::read(std::span<std::byte> memory) {
  if (memory.size() < memory_bytes_)
    return Status(Code::invalid_argument, "read_many: the memory is shorter than memory_bytes()");
  for (Source& source : sources_) source.ranges_left = 0;
  for (const ReadRange& range : ranges_) sources_[range.file].ranges_left += range.size_bytes > 0;
  return Run(*this, memory).run();
}

}  // namespace stoker
