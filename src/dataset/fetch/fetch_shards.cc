#include "dataset/fetch/fetch_shards.h"

#include <algorithm>
#include <cerrno>
#include <span>
#include <utility>

#include "io/engine/residency.h"

namespace stoker {
namespace {

/// A whole shard is examined again after kLookPeriod times the bytes that were cached; in doubt
/// after 1/kDoubtShare of that. Examining a page takes about 25 ns, reading it about 500.
constexpr std::uint64_t kLookPeriod = 4;
constexpr std::uint64_t kDoubtShare = 32;
/// A shard with at most 1/kMissingShare of its bytes missing counts as fully cached. The missing
/// bytes get cached when they are read, and no further looks are needed.
constexpr std::uint64_t kMissingShare = 256;
/// Each fetcher takes 1/kShareParts of the descriptors that the process has left, so that the
/// fetchers of many threads all get some; at least kFilesMin.
constexpr std::size_t kShareParts = 8;
constexpr std::size_t kFilesMin = 1;

/// Descriptors for the shards that their datasets do not keep open.
OpenFilesShare share_of_open_files(std::span<const std::shared_ptr<const ShardDataset>> datasets,
                                   std::size_t most) {
  std::size_t wanted = 0;
  for (const std::shared_ptr<const ShardDataset>& dataset : datasets)
    wanted += dataset->source().shards().size() - dataset->open_shards_max();
  wanted = std::min(wanted, most);
  return OpenFilesShare::take(wanted, kShareParts, std::min(wanted, kFilesMin));
}

bool is_out_of_descriptors(const Status& status) {
  return status.os_error() == EMFILE || status.os_error() == ENFILE;
}

}  // namespace

FetchShards::FetchShards(std::vector<std::shared_ptr<const ShardDataset>> datasets,
                         const Options& options)
    : datasets_(std::move(datasets)),
      options_(options),
      share_(share_of_open_files(datasets_, options.open_files_max)) {
  for (const std::shared_ptr<const ShardDataset>& dataset : datasets_)
    shards_.emplace_back(dataset->source().shards().size());
}

Result<OpenShard> FetchShards::open(std::uint32_t dataset, std::uint32_t shard) {
  Shard& state = shard_of(dataset, shard);
  if (state.open.object == nullptr) return open_now(dataset, shard);
  if (state.owned != kNotOwned) owned_[state.owned].used_at = ++clock_;
  return state.open;
}

/// Closes the least recently used file; returns false if all are pinned.
bool FetchShards::close_oldest() {
  const auto oldest = std::ranges::min_element(owned_, {}, [](const Owned& owned) {
    return owned.pins > 0 ? std::numeric_limits<std::uint64_t>::max() : owned.used_at;
  });
  if (oldest == owned_.end() || oldest->pins > 0) return false;
  Shard& closed = shard_of(oldest->dataset, oldest->shard);
  const std::uint32_t slot = std::exchange(closed.owned, kNotOwned);
  closed.open = {};
  if (slot + 1 < owned_.size()) {
    *oldest = std::move(owned_.back());
    shard_of(oldest->dataset, oldest->shard).owned = slot;
  }
  owned_.pop_back();
  return true;
}

/// Closes a file first if the share is used up. If the process still has no descriptor left, closes
/// more of this fetcher's files and tries again.
Result<std::shared_ptr<const Object>> FetchShards::lend(std::uint32_t dataset,
                                                        std::uint32_t shard) {
  const bool stays_open = shard < datasets_[dataset]->open_shards_max();
  // Exceeds the share only if all files are pinned and the caller did not check has_room_for().
  if (!stays_open && owned_.size() >= share_.count()) static_cast<void>(close_oldest());
  for (;;) {
    Result<std::shared_ptr<const Object>> lent = datasets_[dataset]->lend_shard(shard);
    if (lent.ok() || !is_out_of_descriptors(lent.status()) || !close_oldest()) return lent;
  }
}

Result<OpenShard> FetchShards::open_now(std::uint32_t dataset, std::uint32_t shard) {
  STOKER_ASSIGN(std::shared_ptr<const Object> lent, lend(dataset, shard));
  Shard& state = shard_of(dataset, shard);
  if (!state.was_opened) {
    state.was_opened = true;
    // A small shard is examined at once; a large one when enough of it was requested.
    state.look_in_bytes =
        lent->info().size_bytes <= options_.look_after_bytes ? 0 : options_.look_after_bytes;
  }
  state.open = {.object = lent.get(), .file = lent->file()};
  if (lent.use_count() == 0) return state.open;
  state.owned = static_cast<std::uint32_t>(owned_.size());
  owned_.push_back(
      {.object = std::move(lent), .dataset = dataset, .shard = shard, .used_at = ++clock_});
  return state.open;
}

bool FetchShards::has_room_for(std::uint32_t dataset, std::uint32_t shard) {
  if (shard_of(dataset, shard).open.object != nullptr) return true;
  const auto pinned =
      std::ranges::count_if(owned_, [](const Owned& owned) { return owned.pins > 0; });
  if (pinned == 0) return true;
  const bool stays_open = shard < datasets_[dataset]->open_shards_max();
  const bool is_any_idle = static_cast<std::size_t>(pinned) < owned_.size();
  if (!stays_open && !is_any_idle && owned_.size() >= share_.count()) return false;
  // The pinned files may use the last descriptors of the process.
  return !is_out_of_descriptors(open_now(dataset, shard).status());
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
  const Result<Residency> cached = residency(shard.open.file->buffered_fd());
  if (!cached.ok()) {  // not available, as in a sandbox: treat everything as not cached, and never
                       // ask again
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
  const IoPath cold = shard.open.file->read_path(false);
  // The kernel serves cached pages and fetches the rest; a look would only add cost.
  if (cold == IoPath::buffered) return {FetchPlan::Way::engine, cold};
  looks_.add();
  const Result<Residency> cached =
      residency(shard.open.file->buffered_fd(), range.offset_bytes, range.size_bytes);
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
  STOKER_ASSIGN(const OpenShard opened, open(dataset, shard));
  const File* const file = opened.file;
  if (file == nullptr) return Choice{FetchPlan::Way::store, IoPath::buffered};
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
