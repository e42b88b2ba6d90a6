#include "dataset/shard_cache/shard_cache.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "dataset/shard_cache/order_forecast.h"
#include "stoker/units.h"

namespace stoker {
namespace {

/// Chunk files that a process keeps open.
constexpr std::size_t kOpenChunksMax = 256;
/// After a failed write, nothing is written for so long: a disk that is full is not asked for each
/// range.
constexpr nanoseconds kWritePause{5'000'000'000};

struct IdHash {
  std::size_t operator()(const ChunkId& id) const noexcept {
    return id.object.low ^ (id.offset_bytes * 0x9e3779b97f4a7c15ULL);
  }
};

}  // namespace

namespace {

Status named(const Status& status, const std::string& directory) {
  const bool is_named = status.message().find(directory) != std::string_view::npos;
  return status.with_context(is_named ? "cache" : "cache " + directory);
}

}  // namespace

/// What belongs to one process.
struct ShardCache::State {
  const ForkGuard made_here;
  OrderForecast forecast;
  std::unique_ptr<CacheDirectory> directory;  // null: it cannot be used

  mutable Mutex mutex;
  Status trouble STOKER_GUARDED_BY(mutex);
  Deadline write_again_at STOKER_GUARDED_BY(mutex){};
  using Open = std::pair<ChunkId, std::shared_ptr<const ChunkFile>>;
  std::list<Open> open STOKER_GUARDED_BY(mutex);  // last used first
  std::unordered_map<ChunkId, std::list<Open>::iterator, IdHash> open_at STOKER_GUARDED_BY(mutex);

  SharedCounter hits, hit_bytes, fetches, fetched_bytes, passes, passed_bytes, healed, waits,
      failures;

  std::shared_ptr<const ChunkFile> find_open(const ChunkId& id) {
    MutexLock lock(mutex);
    const auto found = open_at.find(id);
    if (found == open_at.end()) return nullptr;
    open.splice(open.begin(), open, found->second);
    return found->second->second;
  }
  void keep_open(const ChunkId& id, std::shared_ptr<const ChunkFile> file) {
    Open dropped;  // closed without the lock
    MutexLock lock(mutex);
    if (open_at.contains(id)) return;
    open.emplace_front(id, std::move(file));
    open_at.emplace(id, open.begin());
    if (open.size() <= kOpenChunksMax) return;
    dropped = std::move(open.back());
    open_at.erase(dropped.first);
    open.pop_back();
  }
  void forget(const ChunkId& id) {
    Open dropped;
    MutexLock lock(mutex);
    const auto found = open_at.find(id);
    if (found == open_at.end()) return;
    dropped = std::move(*found->second);
    open.erase(found->second);
    open_at.erase(found);
  }
};

Result<std::shared_ptr<ShardCache>> ShardCache::open(Options options) {
  if (options.directory.empty()) return Status(Code::invalid_argument, "a cache needs a directory");
  if (options.size_bytes < kSizeMin)
    return Status(
        Code::invalid_argument,
        fmt::format("{}: a cache of {} is too small; the minimum is {}", options.directory,
                    format_bytes(options.size_bytes), format_bytes(kSizeMin)));
  if (options.ops == nullptr) options.ops = &posix_file_ops();
  std::shared_ptr<ShardCache> cache(new ShardCache(std::move(options)));
  State& state = cache->state();
  MutexLock lock(state.mutex);
  if (state.trouble.code() == Code::invalid_argument || state.trouble.code() == Code::unsupported)
    return state.trouble;
  return cache;
}

ShardCache::~ShardCache() {
  State* const state = state_.load(std::memory_order_acquire);
  if (state != nullptr && state->made_here.is_here()) delete state;
}

ShardCache::State& ShardCache::state() {
  State* seen = state_.load(std::memory_order_acquire);
  if (seen != nullptr && seen->made_here.is_here()) return *seen;
  auto made = std::make_unique<State>();
  Result<std::unique_ptr<CacheDirectory>> opened = CacheDirectory::open(
      *options_.ops, {.path = options_.directory, .limit_bytes = options_.size_bytes},
      made->forecast);
  if (opened.ok()) {
    made->directory = *std::move(opened);
  } else {
    MutexLock lock(made->mutex);
    made->trouble = named(opened.status(), options_.directory);
  }
  if (state_.compare_exchange_strong(seen, made.get(), std::memory_order_acq_rel,
                                     std::memory_order_acquire))
    return *made.release();
  return *seen;  // another thread was faster
}

const ShardCache::State* ShardCache::state_if_here() const {
  const State* const state = state_.load(std::memory_order_acquire);
  return state != nullptr && state->made_here.is_here() ? state : nullptr;
}

void ShardCache::failed(State& state, const Status& status, bool is_write) {
  state.failures.add();
  MutexLock lock(state.mutex);
  if (state.trouble.ok()) state.trouble = named(status, options_.directory);
  if (is_write) state.write_again_at = Clock::now() + kWritePause;
}

std::shared_ptr<const ChunkFile> ShardCache::open_chunk(State& state, const ChunkId& id) {
  if (std::shared_ptr<const ChunkFile> open = state.find_open(id)) return open;
  Result<ChunkFile> found = state.directory->find(id);
  if (!found.ok()) {
    if (found.status().code() == Code::corrupt) {
      state.healed.add();
    } else if (found.status().code() != Code::not_found) {
      failed(state, found.status(), /*is_write=*/false);
    }
    return nullptr;
  }
  auto file = std::make_shared<const ChunkFile>(*std::move(found));
  state.keep_open(id, file);
  return file;
}

std::shared_ptr<const ChunkFile> ShardCache::open_chunk(const ChunkId& id) {
  State& state = this->state();
  return state.directory == nullptr ? nullptr : open_chunk(state, id);
}

bool ShardCache::read(const ChunkId& id, std::uint64_t offset_bytes, std::span<std::byte> out) {
  const std::shared_ptr<const ChunkFile> chunk = open_chunk(id);
  if (chunk == nullptr) return false;
  const Status status = chunk->read(offset_bytes, out);
  read_ended(*chunk, status, out.size());
  return status.ok();
}

void ShardCache::read_ended(const ChunkFile& chunk, const Status& status,
                            std::uint64_t size_bytes) {
  State& state = this->state();
  const ChunkId& id = chunk.head().id;
  if (status.ok()) {
    state.directory->touch(chunk);
    state.forecast.exchange(*options_.ops, state.directory->orders());
    state.hits.add();
    state.hit_bytes.add(size_bytes);
    return;
  }
  state.forget(id);
  if (!chunk.is_named()) return;  // evicted by another process
  if (status.code() == Code::corrupt) state.healed.add();
  if (status.code() != Code::corrupt) failed(state, status, /*is_write=*/false);
  static_cast<void>(state.directory->remove(id));
}

std::shared_ptr<OrderProgress> ShardCache::announce(AnnouncedOrder order) {
  return state().forecast.announce(std::move(order));
}

CacheDirectory::Begin ShardCache::begin(const ChunkId& id, ChunkFetch& out) {
  State& state = this->state();
  if (state.directory == nullptr) return CacheDirectory::Begin::no_room;
  {
    MutexLock lock(state.mutex);
    if (Clock::now() < state.write_again_at) return CacheDirectory::Begin::no_room;
  }
  state.forecast.exchange(*options_.ops, state.directory->orders());
  const Result<CacheDirectory::Begin> begun = state.directory->begin(id, out);
  if (begun.ok()) return *begun;
  failed(state, begun.status(), /*is_write=*/true);
  return CacheDirectory::Begin::no_room;
}

void ShardCache::commit(ChunkFetch fetch, std::string_view identity,
                        std::span<const std::byte> body) {
  State& state = this->state();
  state.fetches.add();
  state.fetched_bytes.add(body.size());
  const ChunkId id = fetch.id();
  state.forget(id);
  const Status status = state.directory->commit(std::move(fetch), identity, body);
  if (!status.ok()) failed(state, status, /*is_write=*/true);
}

void ShardCache::abandon(ChunkFetch fetch) {
  state().directory->abandon(std::move(fetch));
}

void ShardCache::count_pass(std::uint64_t bytes) noexcept {
  State& state = this->state();
  state.passes.add();
  state.passed_bytes.add(bytes);
}

std::uint64_t ShardCache::source_reads() const noexcept {
  const State* const state = state_if_here();
  return state == nullptr ? 0 : state->fetches.value() + state->passes.value();
}

void ShardCache::count_wait() noexcept {
  state().waits.add();
}

CacheStats ShardCache::stats() const {
  const State* const state = state_if_here();
  if (state == nullptr) return {};
  return {.hits = state->hits.value(),
          .hit_bytes = state->hit_bytes.value(),
          .fetches = state->fetches.value(),
          .fetched_bytes = state->fetched_bytes.value(),
          .passes = state->passes.value(),
          .passed_bytes = state->passed_bytes.value(),
          .healed = state->healed.value(),
          .waits = state->waits.value(),
          .evicted = state->directory ? state->directory->evicted() : 0,
          .failures = state->failures.value(),
          .used_bytes = state->directory ? state->directory->used_bytes() : 0};
}

Status ShardCache::trouble() const {
  const State* const state = state_if_here();
  if (state == nullptr) return {};
  MutexLock lock(state->mutex);
  return state->trouble;
}

}  // namespace stoker
