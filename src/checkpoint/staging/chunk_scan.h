/// \file
/// What is learned of a chunk while it is in the processor's cache: its checksum, the values that
/// are not finite, and whether its tensors have changed since the last save. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checksum.h"
#include "checkpoint/staging/layout.h"

namespace stoker {

/// What was found in all chunks of a tensor.
struct TensorScan {
  std::uint64_t nonfinite_count = 0;
  Digest128 digest = {};  ///< XXH3-128 of its bytes.
  /// Equal for equal tensors. A tensor of a group is looked at as a whole; of others one part in 64
  /// suffices, because it only predicts what the checksums of the group will confirm.
  std::uint64_t fingerprint = 0;
};

/// Scans the chunks of one file, from the first to the last.
///
/// Thread safety: none.
class ChunkScanner {
 public:
  /// Returns the checksum of `bytes`, the given chunk of the file, and adds what it holds to the
  /// entries of its tensors.
  Digest128 scan(const LayoutFile& file, std::size_t chunk, std::span<const std::byte> bytes,
                 std::span<const SaveTensor> tensors, std::span<TensorScan> scans);

 private:
  Xxh3Stream tensor_digest_;  // of the tensor that is not at its end yet
};

/// The fingerprint that a scanner would find in all chunks together, for a tensor that is in no
/// group and lies without gaps: one part in 64 of it is looked at.
std::uint64_t fingerprint_of(const PlacedTensor& placed,
                             std::span<const std::byte> tensor) noexcept;

}  // namespace stoker
