#include "dataset/index/checked_blocks.h"

#include <cstring>

namespace stoker {

Digest128 load_digest(std::span<const std::byte> bytes) {
  Digest128 digest;
  std::memcpy(&digest.low, bytes.data(), sizeof digest.low);
  std::memcpy(&digest.high, bytes.data() + sizeof digest.low, sizeof digest.high);
  return digest;
}

bool CheckedBlocks::check(std::uint64_t block) const {
  if (xxh3_128(bytes_.subspan(block * kBlockBytes, kBlockBytes)) !=
      load_digest(digests_.subspan(block * kDigestBytes, kDigestBytes)))
    return false;
  good_[block].store(true, std::memory_order_relaxed);
  return true;
}

}  // namespace stoker
