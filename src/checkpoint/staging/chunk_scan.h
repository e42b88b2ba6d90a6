/// \file
/// Scans a chunk while it is in the CPU cache: its checksum, its non-finite values, and
/// fingerprints that show whether its tensors have changed since the last save. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checksum.h"
#include "checkpoint/staging/layout.h"

namespace stoker {

/// The result for all chunks of a tensor.
struct TensorScan {
  std::uint64_t nonfinite_count = 0;
  Digest128 digest = {};  ///< XXH3-128 of the tensor's bytes.
  /// Equal for equal tensors. Computed from all bytes of a small tensor or one in a group, and from
  /// 1/64 of the others: it is only a prediction, which the checksums of the group confirm.
  std::uint64_t fingerprint = 0;
};

/// Scans the chunks of one file, from the first to the last.
///
/// Thread safety: none.
class ChunkScanner {
 public:
  /// Returns the checksum of `bytes`, the given chunk of the file, and adds its contents to the
  /// entries of its tensors in `scans`.
  Digest128 scan(const LayoutFile& file, std::size_t chunk, std::span<const std::byte> bytes,
                 std::span<const SaveTensor> tensors, std::span<TensorScan> scans);

 private:
  Xxh3Stream tensor_digest_;  // of the tensor that continues in the next block
};

/// Returns the fingerprint that a ChunkScanner would compute for a tensor that is in no group and
/// has no gaps in memory.
std::uint64_t fingerprint_of(const PlacedTensor& placed,
                             std::span<const std::byte> tensor) noexcept;

}  // namespace stoker
