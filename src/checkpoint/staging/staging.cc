#include "checkpoint/staging/staging.h"

#include <algorithm>
#include <utility>

namespace stoker {
namespace {

/// Direct I/O needs at most page alignment, and the largest pages have 64 KiB.
constexpr std::uint64_t kBoundaryBytes = std::uint64_t{64} << 10;

std::uint64_t padded(std::uint64_t size_bytes) {
  return (size_bytes + kBoundaryBytes - 1) / kBoundaryBytes * kBoundaryBytes;
}

}  // namespace

std::uint64_t staging_bytes(const CheckpointLayout& layout) noexcept {
  std::uint64_t total = 0;
  for (const LayoutFile& file : layout.files) total += padded(file.size_bytes);
  return total;
}

Staging::Staging(const CheckpointLayout& layout, std::span<std::byte> memory)
    : layout_(layout), memory_(memory), is_ring_(memory.size() < staging_bytes(layout)) {
  std::uint64_t offset = 0;
  for (const LayoutFile& file : layout.files) {
    file_offsets_.push_back(offset);
    offset += padded(file.size_bytes);
  }
  if (!is_ring_) return;
  for (std::size_t at = 0; at + kCheckpointChunkBytes <= memory.size(); at += kCheckpointChunkBytes)
    free_.push_back(memory.subspan(at, kCheckpointChunkBytes));
}

Staging::Chunk Staging::at(std::size_t index) const noexcept {
  const ChunkRef ref = layout_.chunks[index];
  const std::size_t size = layout_.files[ref.file].chunk_bytes(ref.chunk);
  return {.index = index,
          .memory = memory_.subspan(file_offsets_[ref.file] + ref.offset_bytes(), padded(size)),
          .size_bytes = size};
}

// Takes the index together with the memory: then the chunk that the writer waits for never lacks
// memory because later chunks have all of it.
std::optional<Staging::Chunk> Staging::give_next() {
  if (!failure_.ok() || next_ == layout_.chunks.size()) return std::nullopt;
  if (!is_ring_) return at(next_++);
  if (free_.empty()) return std::nullopt;
  const ChunkRef ref = layout_.chunks[next_];
  Chunk chunk{.index = next_++,
              .memory = free_.back(),
              .size_bytes = layout_.files[ref.file].chunk_bytes(ref.chunk)};
  free_.pop_back();
  if (next_ == layout_.chunks.size()) released_some_.notify_all();  // no chunks are left to fill
  return chunk;
}

std::optional<Staging::Chunk> Staging::next_to_fill() {
  MutexLock lock(mutex_);
  while (is_ring_ && failure_.ok() && free_.empty() && next_ < layout_.chunks.size())
    released_some_.wait(mutex_);
  return give_next();
}

std::optional<Staging::Chunk> Staging::try_next_to_fill() {
  MutexLock lock(mutex_);
  return give_next();
}

void Staging::filled(const Chunk& chunk) {
  {
    MutexLock lock(mutex_);
    ready_.emplace(chunk.index, chunk);
    filled_bytes_ += chunk.size_bytes;
  }
  filled_some_.notify_one();
}

std::optional<Staging::Chunk> Staging::take_next() {
  const auto next = ready_.find(taken_);
  if (next == ready_.end() || !failure_.ok()) return std::nullopt;
  Chunk chunk = next->second;
  ready_.erase(next);
  ++taken_;
  return chunk;
}

std::optional<Staging::Chunk> Staging::try_take() {
  MutexLock lock(mutex_);
  return take_next();
}

std::optional<Staging::Chunk> Staging::take(Deadline deadline) {
  MutexLock lock(mutex_);
  while (!ready_.contains(taken_) && failure_.ok() && taken_ < layout_.chunks.size()) {
    if (!filled_some_.wait_until(mutex_, deadline)) break;
  }
  return take_next();
}

void Staging::release(const Chunk& chunk) {
  if (!is_ring_) return;
  {
    MutexLock lock(mutex_);
    free_.push_back(chunk.memory);
  }
  released_some_.notify_one();
}

void Staging::fail(Status status) {
  {
    MutexLock lock(mutex_);
    if (failure_.ok()) failure_ = std::move(status);
  }
  filled_some_.notify_all();
  released_some_.notify_all();
}

Status Staging::status() const {
  MutexLock lock(mutex_);
  return failure_;
}

std::uint64_t Staging::filled_bytes() const {
  MutexLock lock(mutex_);
  return filled_bytes_;
}

}  // namespace stoker
