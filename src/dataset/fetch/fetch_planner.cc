#include "dataset/fetch/fetch_planner.h"

#include <algorithm>
#include <numeric>

#include "base/rounding.h"
#include "io/engine/buffer_pool.h"

namespace stoker {
namespace {

using Way = FetchPlan::Way;

constexpr std::uint64_t kDirectAlignBytes = BufferPool::kAlignBytes;
constexpr std::uint64_t kPackedAlignBytes = 64;  // a cache line
/// Maximum length of a stretch in the page cache, so that its bytes are still in the CPU cache when
/// the checksum is computed.
constexpr std::uint64_t kWarmStretchBytes = 256 << 10;

std::string sample_name(std::uint64_t sample, std::uint32_t dataset) {
  return "sample " + std::to_string(sample) + " of dataset " + std::to_string(dataset);
}

}  // namespace

std::uint64_t FetchPlanner::room_overhead_bytes(const Options& options) noexcept {
  return 2 * kDirectAlignBytes + options.gap_bytes;
}

Status FetchPlanner::plan(std::span<const SampleRef> samples, FetchPlan& out) {
  out.clear(samples.size());
  out.record_count_ = samples.size();
  wanted_.clear();
  for (const SampleRef& ref : samples) {
    if (ref.dataset >= shards_.dataset_count() ||
        ref.sample >= shards_.dataset(ref.dataset).sample_count())
      return Status(Code::invalid_argument,
                    sample_name(ref.sample, ref.dataset) + " does not exist");
    shards_.dataset(ref.dataset).index().prefetch(ref.sample);
    wanted_.push_back({ref.sample, ref.dataset, static_cast<std::uint32_t>(wanted_.size())});
  }
  // Samples are numbered by shard and place, so they can be sorted before they are located.
  std::ranges::sort(wanted_, [](const Wanted& a, const Wanted& b) {
    return a.dataset != b.dataset ? a.dataset < b.dataset : a.sample < b.sample;
  });
  std::uint32_t shard_hint = 0;
  for (const Wanted& wanted : wanted_) {
    const Index& index = shards_.dataset(wanted.dataset).index();
    const Result<SampleLocation> at = index.locate(wanted.sample, shard_hint);
    if (!at.ok()) {
      out.failures_.push_back({wanted.out, at.status()});
      continue;
    }
    shard_hint = at->shard;
    const Status status = add({wanted.dataset, at->shard},
                              {.sample = wanted.sample,
                               .offset_bytes = at->record.offset_bytes,
                               .size_bytes = at->record.size_bytes,
                               .out = wanted.out,
                               .crc32c = at->crc32c,
                               .is_checked = index.has_checksums()},
                              out);
    if (!status.ok())
      out.failures_.push_back(
          {wanted.out,
           status.with_context(shards_.dataset(wanted.dataset).describe(wanted.sample))});
  }
  lay_out(out);
  return {};
}

Status FetchPlanner::check(const RowPiece& piece, std::uint64_t row_bytes,
                           std::size_t row_count) const {
  if (piece.dataset >= shards_.dataset_count())
    return Status(Code::invalid_argument,
                  "plan_rows: there is no dataset " + std::to_string(piece.dataset));
  const std::vector<IndexedShard>& shards = shards_.dataset(piece.dataset).index().shards();
  if (piece.shard >= shards.size())
    return Status(Code::invalid_argument,
                  "plan_rows: there is no shard " + std::to_string(piece.shard));
  const std::uint64_t size = shards[piece.shard].plain_size_bytes;
  if (piece.range.offset_bytes > size || piece.range.size_bytes > size - piece.range.offset_bytes)
    return Status(Code::invalid_argument, "plan_rows: " + std::to_string(piece.range.size_bytes) +
                                              " bytes from byte " +
                                              std::to_string(piece.range.offset_bytes) +
                                              " are not in shard " + shards[piece.shard].name);
  if (piece.row >= row_count || piece.at_bytes > row_bytes ||
      piece.range.size_bytes > row_bytes - piece.at_bytes)
    return Status(Code::invalid_argument, "plan_rows: a piece is outside the rows");
  return {};
}

Status FetchPlanner::plan_rows(std::span<const RowPiece> pieces, std::uint64_t row_bytes,
                               std::size_t row_count, FetchPlan& out) {
  out.clear(pieces.size());
  out.record_count_ = row_count;
  out.row_bytes_ = row_bytes;
  out.is_rows_ = true;
  for (const RowPiece& piece : pieces) STOKER_TRY(check(piece, row_bytes, row_count));
  order_.resize(pieces.size());
  std::iota(order_.begin(), order_.end(), 0U);
  std::ranges::sort(order_, [pieces](std::uint32_t left, std::uint32_t right) {
    const RowPiece& a = pieces[left];
    const RowPiece& b = pieces[right];
    if (a.dataset != b.dataset) return a.dataset < b.dataset;
    if (a.shard != b.shard) return a.shard < b.shard;
    return a.range.offset_bytes < b.range.offset_bytes;
  });
  for (const std::uint32_t i : order_) {
    const RowPiece& piece = pieces[i];
    if (piece.range.size_bytes == 0) continue;
    Status status = add({piece.dataset, piece.shard},
                        {.offset_bytes = piece.range.offset_bytes,
                         .size_bytes = piece.range.size_bytes,
                         .row_at = piece.at_bytes,
                         .out = piece.row,
                         .crc32c = piece.crc32c.value_or(0),
                         .is_checked = piece.crc32c.has_value()},
                        out);
    if (!status.ok()) out.failures_.push_back({piece.row, std::move(status)});
  }
  lay_out(out);
  return {};
}

Status FetchPlanner::add(Place place, const FetchPlan::Item& item, FetchPlan& out) {
  FetchShards::Choice choice;
  if (item.size_bytes > 0) {
    STOKER_ASSIGN(choice,
                  shards_.choose(place.dataset, place.shard, {item.offset_bytes, item.size_bytes}));
  }
  if (!try_merge(place, choice, item, out))
    out.stretches_.push_back({.dataset = place.dataset,
                              .shard = place.shard,
                              .offset_bytes = item.offset_bytes,
                              .size_bytes = item.size_bytes,
                              .room_at = item.row_at,
                              .item_first = static_cast<std::uint32_t>(out.items_.size()),
                              .item_count = 1,
                              .way = choice.way,
                              .path = choice.path});
  out.items_.push_back(item);
  return {};
}

bool FetchPlanner::try_merge(Place place, const FetchShards::Choice& choice,
                             const FetchPlan::Item& item, FetchPlan& out) const {
  if (out.stretches_.empty()) return false;
  FetchPlan::Stretch& stretch = out.stretches_.back();
  const std::uint64_t stretch_end = stretch.offset_bytes + stretch.size_bytes;
  const std::uint64_t end = std::max(item.offset_bytes + item.size_bytes, stretch_end);
  if (stretch.dataset != place.dataset || stretch.shard != place.shard ||
      stretch.way != choice.way || stretch.path != choice.path ||
      item.offset_bytes < stretch.offset_bytes)
    return false;
  const std::uint64_t size = end - stretch.offset_bytes;
  bool fits = false;
  if (out.is_rows_ && !FetchPlan::is_batched(stretch.way)) {  // goes straight to its destination
    fits = item.offset_bytes == stretch_end &&
           item.row_at == stretch.room_at + stretch.size_bytes && size <= kWarmStretchBytes;
  } else if (FetchPlan::is_batched(stretch.way)) {
    fits = end == stretch_end ||
           (item.offset_bytes <= stretch_end + options_.gap_bytes && size <= options_.piece_bytes);
  } else {
    fits = end == stretch_end || (item.offset_bytes == stretch_end && size <= kWarmStretchBytes);
  }
  if (!fits) return false;
  stretch.size_bytes = size;
  ++stretch.item_count;
  return true;
}

/// Assigns memory to the stretches in order: direct reads get aligned memory for whole blocks, all
/// other stretches are packed.
void FetchPlanner::lay_out(FetchPlan& out) {
  std::uint64_t at = 0;
  for (FetchPlan::Stretch& stretch : out.stretches_) {
    if (out.is_rows_ && !FetchPlan::is_batched(stretch.way))
      continue;  // read straight into the row
    std::uint64_t room = stretch.size_bytes;
    std::uint64_t align = kPackedAlignBytes;
    if (stretch.path == IoPath::direct) {
      const Result<OpenShard> shard = shards_.open(stretch.dataset, stretch.shard);
      // A shard that can no longer be opened fails when it is read; the size does not matter then.
      const std::uint64_t unit =
          shard.ok() ? shard->file->alignment().offset_bytes : kDirectAlignBytes;
      const std::uint64_t first = round_down(stretch.offset_bytes, unit);
      stretch.skip_bytes = static_cast<std::uint32_t>(stretch.offset_bytes - first);
      room = round_up(stretch.offset_bytes + stretch.size_bytes, unit) - first;
      align = kDirectAlignBytes;
    }
    stretch.room_at = round_up(at, align);
    at = stretch.room_at + room;
  }
  out.memory_bytes = at;
}

}  // namespace stoker
