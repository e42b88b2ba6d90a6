/// \file
/// The default number of samples in a block of block order.
#pragma once

#include <cstdint>

#include "dataset/order/order.h"

namespace stoker {

/// Inputs of the choice: numbers that are the same on every rank and machine.
struct BlockSizing {
  std::uint64_t sample_count = 0;  ///< In an epoch.
  std::uint64_t sample_bytes = 0;  ///< Mean size of a sample, as it is read.
  std::uint64_t lanes = 1;
};

inline constexpr std::uint64_t kBlockBytesMax = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kBlockSamplesMax = std::uint64_t{1} << 16;

/// Returns the largest power of two that keeps a block within kBlockBytesMax and kBlockSamplesMax,
/// so that most blocks have 8 to 16 MiB: long enough for any medium, and as long as a chunk of a
/// remote shard. Smaller if a lane would otherwise have fewer blocks than one window
/// (kWindowBlocksDefault): the lane would mix badly, and with less than one block per lane there
/// would be no lanes at all. At least 1.
///
/// The choice is not part of the definition of the order: a cursor stores the chosen number, and a
/// resumed run takes it from the cursor.
std::uint64_t choose_block_samples(const BlockSizing& sizing) noexcept;

}  // namespace stoker
