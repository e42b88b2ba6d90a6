#include "dataset/fetch_shards.h"

#include <algorithm>

#include "io/residency.h"

namespace stoker {
namespace {

/// Looks at whole shards: after so many times what was found there, and so much sooner in doubt.
/// A page takes a look about 25 ns, and a read about 500.
constexpr std::uint64_t kLookPeriod = 4;
constexpr std::uint64_t kDoubtShare = 32;
/// A shard that lacks no more than this share is taken for whole. What is missing comes in as it is
/// read, and from then on nobody has to look.
constexpr std::uint64_t kMissingShare = 256;

}  // namespace

FetchShards::FetchShards(std::vector<std::shared_ptr<const Dataset>> datasets,
                         const Options& options)
    : datasets_(std::move(datasets)), options_(options) {
  for (const std::shared_ptr<const Dataset>& dataset : datasets_)
    shards_.emplace_back(dataset->source().shards().size());
}

Result<const File*> FetchShards::file(std::uint32_t dataset, std::uint32_t shard) {
  Shard& state = shard_of(dataset, shard);
  if (state.file == nullptr) return open(dataset, shard);
  if (state.owned != kNotOwned) owned_[state.owned].used_at = ++clock_;
  return state.file;
}

Result<const File*> FetchShards::open(std::uint32_t dataset, std::uint32_t shard) {
  Shard& state = shard_of(dataset, shard);
  STOKER_ASSIGN(std::shared_ptr<const File> lent, datasets_[dataset]->lend_shard(shard));
  const File* file = lent.get();
  if (!state.was_opened) {
    state.was_opened = true;
    // A small shard is looked at once and for all; a large one when enough of it was wanted.
    state.look_in_bytes =
        file->size_bytes() <= options_.look_after_bytes ? 0 : options_.look_after_bytes;
  }
  state.file = file;
  if (lent.use_count() == 0) return file;
  const auto oldest = std::ranges::min_element(owned_, {}, [](const Owned& owned) {
    return owned.pins > 0 ? std::numeric_limits<std::uint64_t>::max() : owned.used_at;
  });
  std::size_t slot = static_cast<std::size_t>(oldest - owned_.begin());
  if (owned_.size() < options_.open_files_max || oldest->pins > 0) {
    // Past the limit only for who did not ask has_room_for(): a pinned file is being read.
    slot = owned_.size();
    owned_.emplace_back();
  } else {
    Shard& closed = shard_of(oldest->dataset, oldest->shard);
    closed.file = nullptr;
    closed.owned = kNotOwned;
  }
  owned_[slot] = {.file = std::move(lent), .dataset = dataset, .shard = shard, .used_at = ++clock_};
  state.owned = static_cast<std::uint32_t>(slot);
  return file;
}

bool FetchShards::has_room_for(std::uint32_t dataset, std::uint32_t shard) const {
  return shards_[dataset][shard].file != nullptr || shard < datasets_[dataset]->open_shards_max() ||
         owned_.size() < options_.open_files_max ||
         std::ranges::any_of(owned_, [](const Owned& owned) { return owned.pins == 0; });
}

void FetchShards::pin(std::uint32_t dataset, std::uint32_t shard) {
  const Shard& state = shard_of(dataset, shard);
  if (state.owned != kNotOwned) ++owned_[state.owned].pins;
}

void FetchShards::unpin(std::uint32_t dataset, std::uint32_t shard) {
  const Shard& state = shard_of(dataset, shard);
  if (state.owned != kNotOwned) --owned_[state.owned].pins;
}

void FetchShards::look(Shard& shard) {
  looks_.add();
  const Result<Residency> cached = residency(shard.file->buffered_fd());
  if (!cached.ok()) {  // a sandbox that hides it: take everything for cold, and never ask again
    shard.held = Held::none;
    shard.look_in_bytes = std::numeric_limits<std::uint64_t>::max();
    shard.look_period_bytes = shard.look_in_bytes;
    return;
  }
  const std::uint64_t missing = cached->size_bytes - cached->resident_bytes;
  shard.held = Held::part;
  if (missing <= cached->size_bytes / kMissingShare) shard.held = Held::whole;
  if (cached->resident_bytes == 0) shard.held = Held::none;
  shard.look_period_bytes =
      std::max(cached->resident_bytes * kLookPeriod, options_.look_after_bytes);
  shard.look_in_bytes = shard.look_period_bytes;
}

FetchShards::Choice FetchShards::choose_part(const Shard& shard, ByteRange range) {
  const IoPath cold = shard.file->read_path(false);
  // The kernel serves what it has and fetches the rest; a look would only come on top.
  if (cold == IoPath::buffered) return {FetchPlan::Way::engine, cold};
  looks_.add();
  const Result<Residency> cached =
      residency(shard.file->buffered_fd(), range.offset_bytes, range.size_bytes);
  const bool is_resident = cached.ok() && cached->resident_bytes * 2 > cached->size_bytes;
  const bool is_others = cached.ok() && cached->resident_bytes > 0;
  if (is_resident || (cold == IoPath::fadvise_drop && is_others))
    return {FetchPlan::Way::page_cache, IoPath::buffered};
  return {FetchPlan::Way::engine, cold};
}

Result<FetchShards::Choice> FetchShards::choose(std::uint32_t dataset, std::uint32_t shard,
                                                ByteRange range) {
  if (datasets_[dataset]->source().is_compressed(shard))
    return Choice{FetchPlan::Way::inflated, IoPath::buffered};
  STOKER_ASSIGN(const File* file, this->file(dataset, shard));
  const IoPath warm = file->read_path(true);
  if (warm != IoPath::buffered) return Choice{FetchPlan::Way::engine, warm};
  Shard& state = shard_of(dataset, shard);
  if (state.look_in_bytes == 0) look(state);
  state.look_in_bytes -= std::min(state.look_in_bytes, range.size_bytes);
  switch (state.held) {
    case Held::whole: return Choice{FetchPlan::Way::page_cache, IoPath::buffered};
    case Held::none: return Choice{FetchPlan::Way::engine, file->read_path(false)};
    case Held::part: break;
  }
  return choose_part(state, range);
}

void FetchShards::doubt(std::uint32_t dataset, std::uint32_t shard) {
  Shard& state = shard_of(dataset, shard);
  state.look_in_bytes = std::min(state.look_in_bytes, state.look_period_bytes / kDoubtShare);
}

}  // namespace stoker
