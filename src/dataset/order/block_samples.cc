#include "dataset/order/block_samples.h"

#include <algorithm>
#include <bit>

namespace stoker {

std::uint64_t choose_block_samples(const BlockSizing& sizing) noexcept {
  const std::uint64_t lanes = std::max<std::uint64_t>(sizing.lanes, 1);
  const std::uint64_t by_bytes = kBlockBytesMax / std::max<std::uint64_t>(sizing.sample_bytes, 1);
  const std::uint64_t by_count = sizing.sample_count / kWindowBlocksDefault / lanes;
  const std::uint64_t most = std::min({by_bytes, by_count, kBlockSamplesMax});
  return std::bit_floor(std::max<std::uint64_t>(most, 1));
}

}  // namespace stoker
