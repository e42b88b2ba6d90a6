/// \file
/// How many samples a block of block order has, where nobody says so.
#pragma once

#include <cstdint>

#include "dataset/order/order.h"

namespace stoker {

/// What the choice rests on: figures that are the same on every rank and machine.
struct BlockSizing {
  std::uint64_t sample_count = 0;  ///< Of an epoch.
  std::uint64_t sample_bytes = 0;  ///< Of the mean sample, as it is read.
  std::uint64_t lanes = 1;
};

inline constexpr std::uint64_t kBlockBytesMax = std::uint64_t{16} << 20;
inline constexpr std::uint64_t kBlockSamplesMax = std::uint64_t{1} << 16;

/// The greatest power of two that keeps a block within kBlockBytesMax, so that most blocks are of 8
/// to 16 MiB: long enough for any medium, and as long as a chunk of a remote shard. Less where a
/// lane would have fewer blocks than one window (kWindowBlocksDefault), for then it mixes badly,
/// and with less than one block for each lane there would be no lanes at all. At least 1.
///
/// Not a part of the order: a cursor keeps what was chosen, and a run that goes on takes it from
/// there, whatever this function says by then.
std::uint64_t choose_block_samples(const BlockSizing& sizing) noexcept;

}  // namespace stoker
