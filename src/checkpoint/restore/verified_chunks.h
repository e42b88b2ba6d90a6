#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "base/mutex.h"

namespace stoker {

/// A cache of the bytes of a few verified chunks. Without it, reading a tensor in pieces would read
/// and hash whole chunks again for every piece.
///
/// Thread safety: every method may be called from any thread.
class VerifiedChunks {
 public:
  using Bytes = std::shared_ptr<const std::vector<std::byte>>;

  /// Returns the bytes of a chunk; null if they are not kept.
  Bytes find(std::uint32_t file, std::uint32_t chunk) {
    const MutexLock lock(mutex_);
    for (auto it = kept_.begin(); it != kept_.end(); ++it) {
      if (it->file != file || it->chunk != chunk) continue;
      kept_.splice(kept_.begin(), kept_, it);
      return it->bytes;
    }
    return nullptr;
  }

  void keep(std::uint32_t file, std::uint32_t chunk, std::span<const std::byte> bytes) {
    auto copy = std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
    const MutexLock lock(mutex_);
    kept_.push_front({file, chunk, std::move(copy)});
    if (kept_.size() > kCount) kept_.pop_back();
  }

 private:
  static constexpr std::size_t kCount = 4;
  struct Chunk {
    std::uint32_t file = 0;
    std::uint32_t chunk = 0;
    Bytes bytes;
  };

  Mutex mutex_;
  std::list<Chunk> kept_ STOKER_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace stoker
