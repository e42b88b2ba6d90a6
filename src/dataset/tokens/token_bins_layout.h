#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "dataset/index/checked_blocks.h"

// The format of a file of packs (docs/formats/packs.md), little-endian:
//
//   header      4096 bytes: Header, zeros, and in the last 16 the XXH3-128 of the bytes before
//   entries     of 8 bytes: the first piece of each pack, then the pieces, pack by pack;
//               padded with zeros to whole blocks of 64 KiB
//   digests     one XXH3-128 for each block
//
// A piece is the number of its sample in the low kSampleBits, and above them the number of its row
// in a long document.

namespace stoker::token_bins_layout {

inline constexpr std::array<char, 8> kMagic = {'S', 'T', 'K', 'P', 'A', 'C', 'K', 'S'};
inline constexpr std::uint16_t kVersionMajor = 1;
inline constexpr std::uint16_t kVersionMinor = 0;
inline constexpr std::size_t kHeaderBytes = 4096;
inline constexpr std::size_t kBlockBytes = CheckedBlocks::kBlockBytes;
inline constexpr std::size_t kDigestBytes = CheckedBlocks::kDigestBytes;
inline constexpr std::size_t kEntryBytes = 8;
inline constexpr unsigned kSampleBits = 40;
inline constexpr std::uint64_t kSampleMax = (std::uint64_t{1} << kSampleBits) - 1;
inline constexpr std::uint64_t kPartMax = (std::uint64_t{1} << (64 - kSampleBits)) - 1;

struct Header {
  std::array<char, 8> magic;
  std::uint16_t version_major;
  std::uint16_t version_minor;
  std::uint32_t token_bytes;
  std::uint64_t length;
  std::uint64_t pack_count;
  std::uint64_t piece_count;
  std::uint64_t pieces_max;
  std::uint64_t fingerprint_low;
  std::uint64_t fingerprint_high;
  std::uint64_t digests_digest_low;
  std::uint64_t digests_digest_high;
};
static_assert(sizeof(Header) == 80 && std::is_trivially_copyable_v<Header>);

/// Number of blocks for `entry_count` entries.
inline std::uint64_t block_count(std::uint64_t entry_count) {
  constexpr std::uint64_t kPerBlock = kBlockBytes / kEntryBytes;
  return entry_count / kPerBlock + (entry_count % kPerBlock != 0 ? 1 : 0);
}

}  // namespace stoker::token_bins_layout
