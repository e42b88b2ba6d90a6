#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/checksum.h"

namespace stoker {

/// Bytes in blocks of 64 KiB, each with its XXH3-128 in a table, verified on first use: a mapped
/// file of any size opens at once and can still be trusted.
///
/// Thread safety: const methods from any thread.
class CheckedBlocks {
 public:
  static constexpr std::size_t kBlockBytes = 64 << 10;
  static constexpr std::size_t kDigestBytes = 16;

  CheckedBlocks() = default;
  /// `bytes` are whole blocks, `digests` has one digest per block; both must outlive the object.
  CheckedBlocks(std::span<const std::byte> bytes, std::span<const std::byte> digests)
      : bytes_(bytes),
        digests_(digests),
        good_(std::make_unique<std::atomic<bool>[]>(bytes.size() / kBlockBytes)) {}

  std::span<const std::byte> bytes() const noexcept { return bytes_; }
  std::uint64_t count() const noexcept { return bytes_.size() / kBlockBytes; }

  /// Whether block `block`, which is below count(), is undamaged.
  bool is_good(std::uint64_t block) const {
    return good_[block].load(std::memory_order_relaxed) || check(block);
  }

 private:
  bool check(std::uint64_t block) const;

  std::span<const std::byte> bytes_;
  std::span<const std::byte> digests_;
  /// A flag per block that was found good. Relaxed: two threads may both check a block, and the
  /// bytes never change.
  std::unique_ptr<std::atomic<bool>[]> good_;
};

/// Reads the digest at the start of `bytes`.
Digest128 load_digest(std::span<const std::byte> bytes);

}  // namespace stoker
